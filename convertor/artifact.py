"""Find the engine's artifact in a package, and what goes with it."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .facts import OnnxFacts, read_onnx_facts
from .families import Family
from .manifest.parse import MANIFEST, Manifest
from .package import Package, is_lfs_pointer


@dataclass(frozen=True)
class Artifact:
    """The engine's file and its companions.

    Attributes:
        name: The artifact's member name in the package.
        files: Path in the model's artifact folder -> member name; the artifact's folder verbatim.
        left_out: Members of that folder that are not copied: a package may not bring Python code.
        facts: What an ONNX graph says of itself; None for other engines.
    """

    name: str
    files: Mapping[str, str]
    left_out: tuple[str, ...]
    facts: OnnxFacts | None

    @property
    def path(self) -> str:
        """The artifact in the version folder, for model.json."""
        return f"artifact/{posixpath.basename(self.name)}"


def find_artifact(package: Package, manifest: Manifest, runtime: Family, problems: list[str]) -> Artifact | None:
    """Return the artifact, or None after adding what is wrong to `problems`.

    It is looked for at the package root, then in the folder named like the stage.
    """
    given = manifest.artifact or runtime.artifact
    if _climbs(given):
        problems.append(
            f"{MANIFEST}: runtime_artifact: expected a file name inside the package, got {given!r}; "
            "name the file as it lies in the package"
        )
        return None
    places = [given] + ([f"{manifest.stage_type}/{given}"] if manifest.stage_type else [])
    name = next((place for place in places if place in package.members), None)
    if name is None:
        problems.append(
            f"{MANIFEST}: runtime_artifact: expected {' or '.join(places)} in the package, "
            f"got {_listed(package.members)}; add the file or name it in runtime_artifact"
        )
        return None
    return _collect(package, name, problems)


def _collect(package: Package, name: str, problems: list[str]) -> Artifact | None:
    folder = posixpath.dirname(name)
    members = [member for member in package.members if not folder or member.startswith(f"{folder}/")]
    left_out = tuple(member for member in members if member.endswith((".py", ".pyc")))
    files = {
        member[len(folder) + 1 if folder else 0 :]: member
        for member in members
        if member != MANIFEST and member not in left_out
    }
    pointers = [member for member in files.values() if is_lfs_pointer(package.head(member, 64))]
    problems.extend(
        f"{member}: expected the file itself, got a Git LFS pointer; run `git lfs pull` and pack again"
        for member in pointers
    )
    if pointers:
        return None
    facts = _facts(package, name)
    if facts is not None:
        problems.extend(_external_problems(name, facts, files))
    return Artifact(name, files, left_out, facts)


def _facts(package: Package, name: str) -> OnnxFacts | None:
    if not name.endswith(".onnx"):
        return None
    with package.open(name) as stream:
        return read_onnx_facts(stream, package.members[name], name)


def _external_problems(name: str, facts: OnnxFacts, files: Mapping[str, str]) -> list[str]:
    problems: list[str] = []
    for location in facts.external_files:
        if _climbs(location):
            problems.append(
                f"{name}: external data: expected a file inside the package, got {location!r}; export again"
            )
        elif posixpath.normpath(location) not in files:
            problems.append(f"{name}: external data: expected {location} beside it, got {_listed(files)}; add the file")
    return problems


def _climbs(path: str) -> bool:
    parts = path.replace("\\", "/").split("/")
    return path.startswith(("/", "\\")) or ".." in parts or ":" in path


def _listed(names: Mapping[str, object] | Sequence[str]) -> str:
    shown = sorted(names)[:5]
    rest = len(names) - len(shown)
    return (", ".join(shown) or "nothing") + (f" and {rest} more" if rest > 0 else "")
