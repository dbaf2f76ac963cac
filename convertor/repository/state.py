"""What a repository holds of one model, read without writing; refusals that need no plan.

The committed state is the version that the ensemble's config.pbtxt pins in all of its steps. Anything above it is left
over from a publish that did not reach its commit, and does not count as a version.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from convertor.errors import RefusedError, UsageError, refuse_if
from convertor.model_config import TensorDims, ensemble_steps, inputs_of, outputs_of, parse_config
from convertor.repository import names

MODEL_FORMAT = 1
MODEL_JSON = "model.json"
CONFIG = "config.pbtxt"
HIGHEST_POSSIBLE = 2**63 - 1  # Triton reads a version folder's name as int64
_VERSION_FOLDER = re.compile(r"[1-9][0-9]*")


@dataclass(frozen=True)
class Identity:
    """What clients rely on in the pinned version: a change of any of these needs `--replace`.

    Attributes:
        task: From base's model.json.
        profile: From base's model.json.
        inputs: The ensemble's inputs, in order of name.
        outputs: The names of the ensemble's outputs, sorted.
    """

    task: str
    profile: str
    inputs: tuple[TensorDims, ...]
    outputs: tuple[str, ...]

    @property
    def takes_any_image(self) -> bool:
        """Whether some input's size is free."""
        return any(-1 in tensor.dims for tensor in self.inputs if len(tensor.dims) > 1)


@dataclass(frozen=True)
class RepositoryState:
    """What the repository holds of one model.

    Attributes:
        name: The ensemble's name.
        replace: Whether the caller allows another task, profile, input or output set.
        pinned: The committed version; None when the model was never published.
        versions: The committed versions on disk, ascending; () when there is none.
        highest: The highest committed version; 0 when there is none.
        identity: What the pinned version serves; None with `pinned`.
        existing: The model's directories that are there.
        leftovers: What to remove before publishing: `base_x/3`, or `base_x` when nothing was committed.
    """

    name: str
    replace: bool
    pinned: int | None
    versions: tuple[int, ...]
    highest: int
    identity: Identity | None
    existing: tuple[str, ...]
    leftovers: tuple[str, ...]


def parse_version(text: str) -> int | None:
    """Read `--version`: the part before the first dot, a whole number > 0; None for `next`.

    Raises:
        UsageError: Anything else.
    """
    if text == "next":
        return None
    head = text.split(".", 1)[0]
    if not (head.isascii() and head.isdigit() and len(head) <= 19 and 0 < int(head) <= HIGHEST_POSSIBLE):
        raise UsageError(f"--version: expected `next` or a whole number > 0 before the first dot, got {text!r}")
    return int(head)


def next_version(state: RepositoryState, requested: int | None) -> int:
    """Return the version to publish: the highest + 1, or the requested one.

    Raises:
        RefusedError: The requested version exists or is below the highest, or no number is left above that.
    """
    if state.highest >= HIGHEST_POSSIBLE:
        raise RefusedError(
            f"{state.name}: version {state.highest} is the highest there can be; take another --name, "
            "or move the model's directories away and convert again"
        )
    if requested is None:
        return state.highest + 1
    advice = f"take --version {state.highest + 1} or higher, or leave --version out"
    if requested in state.versions:
        raise RefusedError(f"{state.name}: version {requested} exists already; {advice}")
    if requested <= state.highest:
        raise RefusedError(f"{state.name}: version {requested} is below the highest, {state.highest}; {advice}")
    return requested


def survey(repository: Path, name: str, replace: bool = False) -> RepositoryState:
    """Read what `repository` holds of the model `name`; a repository that does not exist yet is empty.

    Raises:
        RefusedError: The path cannot be a repository, or one of the model's directories is not this model's.
    """
    root = resolved(repository)
    try:
        _check_place(root)
        for owner in names.possible_owners(name):
            if (root / owner).is_dir() and _ensemble_owner(root / owner) == owner:
                raise RefusedError(f"{name}: this name belongs to the model {owner} in {root}; take another --name")
        existing = tuple(entry for entry in names.reserved_by(name) if os.path.lexists(root / entry))
        problems = [problem for entry in existing if (problem := _not_ours(root / entry, name))]
        refuse_if(problems)
        return _read(root, name, replace, existing)
    except OSError as error:
        raise RefusedError(f"{error.filename or root}: cannot be read: {error.strerror}") from error


def resolved(repository: Path) -> Path:
    """Return the repository's real path: staging must lie beside the directory itself, not beside a link to it."""
    return Path(os.path.realpath(repository))


def _check_place(root: Path) -> None:
    place = root
    while not os.path.lexists(place):
        place = place.parent
    if not place.is_dir():
        lies = "is" if place == root else f"lies below {place}, which is"
        raise RefusedError(f"{root}: the repository {lies} not a directory; give another folder")
    if place == root:
        if os.path.ismount(root):
            raise RefusedError(
                f"{root}: is a mount point, and versions are staged beside the repository; {_inside(root)}"
            )
        if not os.access(root.parent, os.W_OK | os.X_OK):
            raise RefusedError(
                f"{root.parent}: not writable, and versions are staged beside the repository; {_inside(root)}"
            )
    if not os.access(place, os.W_OK | os.X_OK):
        raise RefusedError(f"{place}: not writable; give another folder or run as a user who may write there")


def _inside(root: Path) -> str:
    return f"use a folder in it, as in `-o {root / 'models'}`, and serve that"


def _not_ours(directory: Path, name: str) -> str | None:
    """Return why a directory under one of the model's names cannot be used, None when it is the model's."""
    owner = None
    if directory.is_dir():
        owner = _ensemble_owner(directory) or _step_owner(directory)
    if owner == name:
        return None
    if owner is None:
        return f"{directory}: was not written by convert and is left alone; move it away or take another --name"
    return f"{directory}: belongs to the model {owner}; take another --name"


def _ensemble_owner(directory: Path) -> str | None:
    try:
        steps = ensemble_steps(read_config(directory))
    except (ValueError, FileNotFoundError, IsADirectoryError):
        return None
    owners = {
        name.removeprefix(prefix) for name, _ in steps for prefix in names.STEP_PREFIXES if name.startswith(prefix)
    }
    return owners.pop() if len(owners) == 1 and directory.name in names.ensembles_of(next(iter(owners))) else None


def _step_owner(directory: Path) -> str | None:
    for version in reversed(version_folders(directory)):
        described = read_model_json(directory / str(version))
        if described is not None:
            owner = described.get("name")
            return owner if isinstance(owner, str) and directory.name in names.steps_of(owner) else None
    return None


def _read(root: Path, name: str, replace: bool, existing: tuple[str, ...]) -> RepositoryState:
    pins = {entry: _pin(root / entry) for entry in names.ensembles_of(name) if entry in existing}
    pinned = pins.get(name)
    if pinned is None:
        # The model's own ensemble comes last: without it nothing was committed, whatever else is there.
        return RepositoryState(name, replace, None, (), 0, None, existing, existing)
    highest = max(pins.values())
    leftovers = tuple(
        f"{entry}/{version}" for entry in existing for version in version_folders(root / entry) if version > highest
    )
    versions = tuple(version for version in version_folders(root / name) if version <= highest)
    identity = _identity(root, name, pinned)
    return RepositoryState(name, replace, pinned, versions, highest, identity, existing, leftovers)


def _pin(directory: Path) -> int:
    pins = {version for _, version in ensemble_steps(read_config(directory))}
    if len(pins) != 1 or min(pins) < 1:
        raise RefusedError(
            f"{directory / CONFIG}: pins {', '.join(map(str, sorted(pins)))}, expected one version in every step; "
            "restore the file, or move the model away and convert again"
        )
    return pins.pop()


def _identity(root: Path, name: str, pinned: int) -> Identity:
    base = root / names.steps_of(name)[0] / str(pinned)
    described = read_model_json(base)
    if described is None:
        raise RefusedError(
            f"{base / MODEL_JSON}: missing or not readable, but {name} pins version {pinned}; move the model's "
            "directories away and convert again"
        )
    config = read_config(root / name)
    outputs = tuple(tensor.name for tensor in outputs_of(config))
    return Identity(str(described.get("task")), str(described.get("profile")), inputs_of(config), outputs)


def read_config(directory: Path) -> Any:  # noqa: ANN401 - a generated protobuf class
    """Read a model directory's config.pbtxt as Triton's ModelConfig message.

    Raises:
        ValueError: It is not one, or not UTF-8.
    """
    path = directory / CONFIG
    return parse_config(path.read_text(encoding="utf-8"), str(path))


def read_model_json(folder: Path) -> dict[str, object] | None:
    """Read a version folder's model.json; None when it is missing or not one of ours."""
    try:
        described: object = json.loads((folder / MODEL_JSON).read_text(encoding="utf-8"))
    except (ValueError, RecursionError, FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    if not isinstance(described, dict):
        return None
    typed = cast("dict[str, object]", described)
    return typed if typed.get("format") == MODEL_FORMAT else None


def version_folders(directory: Path) -> list[int]:
    """Return the version numbers in a model directory, ascending; [] when there are none."""
    return sorted(
        int(entry.name) for entry in directory.iterdir() if _VERSION_FOLDER.fullmatch(entry.name) and entry.is_dir()
    )
