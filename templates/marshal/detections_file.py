"""The detections of one capture as a file beside the capture's images.

Payload: runs inside the server's python (3.9 or newer); needs the standard library only. The folder comes from whoever
calls the server, so nothing is written unless the server's own environment lists the folder (or one above it).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from capture_request import Metadata, is_file_name

ROOTS_VARIABLE = "CAPTURE_ROOTS"
SUFFIX = "detections.json"
# Linux takes no longer path (PATH_MAX), and resolving one takes time quadratic in its parts: minutes for a megabyte.
MAX_FOLDER_BYTES = 4096


class NotWrittenError(Exception):
    """The file was not written; the text is one line that says why."""


def capture_roots(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders below which files may be written, links resolved; only absolute entries count."""
    entries = environment.get(ROOTS_VARIABLE, "").split(os.pathsep)
    return tuple(Path(os.path.realpath(entry)) for entry in entries if Path(entry).is_absolute())


def write_detections(content: bytes, metadata: Metadata, roots: Sequence[Path]) -> Path:
    """Write `<folder>/<capture_id>.detections.json` whole or not at all, and return its path.

    The folder has to exist; a file (or link) of that name is replaced.

    Raises:
        NotWrittenError: No folder or id, the folder has over MAX_FOLDER_BYTES or is not below a root once its links are
            resolved, the id is no file name, or the file system refuses.
    """
    if not metadata.folder or not is_file_name(metadata.capture_id):
        raise NotWrittenError("METADATA has no capture folder, or no capture_id that can be a file name")
    size = len(metadata.folder.encode("utf-8", "surrogatepass"))
    if size > MAX_FOLDER_BYTES:
        raise NotWrittenError(f"METADATA's capture folder has {size} bytes, expected at most {MAX_FOLDER_BYTES}")
    try:
        folder = _allowed(_as_on_disk(metadata.folder), roots)
        target = folder / f"{_as_on_disk(metadata.capture_id)}.{SUFFIX}"
        _replace(target, content)
    except (OSError, ValueError) as error:  # ValueError: a NUL or a lone surrogate in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise NotWrittenError(f"{metadata.folder!r}: {reason}") from error
    return target


def _as_on_disk(text: str) -> str:
    # The server's python takes file names for ASCII, whatever the locale: others only pass as escaped UTF-8 bytes.
    return os.fsdecode(text.encode("utf-8"))


def _allowed(folder: str, roots: Sequence[Path]) -> Path:
    resolved = Path(os.path.realpath(folder))
    if not Path(folder).is_absolute() or not any(root == resolved or root in resolved.parents for root in roots):
        raise NotWrittenError(f"{folder!r} is not below a folder of {ROOTS_VARIABLE}")
    return resolved


def _replace(target: Path, content: bytes) -> None:
    temporary = target.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        # "x" never follows a link that someone put there.
        with temporary.open("xb") as file:
            file.write(content)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
