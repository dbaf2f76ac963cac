"""The model's name: from --name, the manifest's model_name, or the package's file name."""

from __future__ import annotations

import re

from convertor.errors import RefusedError

MAX_BYTES = 200
_LEGAL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def model_name(given: str | None, manifest_name: str | None, stem: str) -> str:
    """Return the name; the first two are taken as they are or refused, the file's stem is made legal.

    Raises:
        RefusedError: A given name is not `[A-Za-z0-9_.-]`, begins with a dot or a dash, or is too long; or nothing
            of the stem is left.
    """
    for where, name in (("--name", given), ("manifest.json: model_name", manifest_name)):
        if name is not None:
            return _checked(where, name)
    legal = re.sub(r"[^A-Za-z0-9_.-]+", "_", stem).strip("_").lstrip(".-")[:MAX_BYTES]
    if not legal:
        raise RefusedError(f"{stem}: expected a file name with letters or digits, got none; give the model a --name")
    return legal


def _checked(where: str, name: str) -> str:
    if not _LEGAL.fullmatch(name) or len(name) > MAX_BYTES:
        raise RefusedError(
            f"{where}: expected letters, digits, '_', '.', '-' (not first) and at most {MAX_BYTES}, got {name[:60]!r}; "
            "choose another name"
        )
    return name
