"""Find the engine's artifact in a package, and what goes with it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from convertor.facts import ArtifactFacts, OnnxFacts, graph_facts, read_onnx_facts
from convertor.families import Family
from convertor.listing import shown
from convertor.manifest.parse import MANIFEST, Manifest
from convertor.manifest.reader import as_json
from convertor.notes import Notes
from convertor.package import Package, is_lfs_pointer

ONNX = ".onnx"
_FIELD = f"{MANIFEST}: runtime_artifact"
_POINTER_BYTES = 1024  # a Git LFS pointer is smaller, by its specification
# ONNX Runtime (1.20.1 and 1.22.0, measured) takes the offset in a "file" of such a name for an address in its memory.
_MEMORY = "*/_ORT_"
_NAMES_SHOWN = 5


@dataclass(frozen=True)
class Artifact:
    """The engine's file and its companions.

    Attributes:
        name: The artifact's member name in the package.
        files: Path in the model's artifact folder -> member name; the artifact's folder verbatim.
        facts: What the graph says of itself; None where that cannot be read without the engine.
        native: Member names of native code.
        pickles: What of it runs code when it is loaded -> the line that refuses it without --allow-pickles.
    """

    name: str
    files: Mapping[str, str]
    facts: ArtifactFacts | None
    native: tuple[str, ...]
    pickles: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def path(self) -> str:
        """The artifact in the version folder, for model.json."""
        return f"artifact/{posixpath.basename(self.name)}"


def find_artifact(package: Package, manifest: Manifest, runtime: Family, notes: Notes) -> Artifact | None:
    """Return the artifact, or None after noting what is wrong.

    It is looked for at the package root, then in the folder named like the stage. Its folder is taken as it is, but for
    the manifest and for Python code, which is named in a warning.
    """
    given = manifest.artifact or runtime.artifact
    if _climbs(given):
        notes.problems.append(
            f"{_FIELD}: expected a file inside the package, got {as_json(given)}; name it as it lies in the package"
        )
        return None
    places = [posixpath.normpath(given)]
    if manifest.stage_type is not None:
        places.append(posixpath.normpath(f"{manifest.stage_type}/{given}"))
    name = next((place for place in places if place in package.members), None)
    if name is None:
        notes.problems.append(
            f"{_FIELD}: expected {' or '.join(map(shown, places))} in the package, got {_listed(package.members)}; "
            "add the file or name the one that is there"
        )
        return None
    return _collect(package, name, runtime, notes)


def _collect(package: Package, name: str, runtime: Family, notes: Notes) -> Artifact | None:
    folder = posixpath.dirname(name)
    members = [member for member in package.members if not folder or member.startswith(f"{folder}/")]
    code = [member for member in members if _is_code(member)]
    if name == MANIFEST or name in code:
        notes.problems.append(f"{_FIELD}: expected the engine's file, got {shown(name)}; name the model's file")
        return None
    notes.warnings.extend(f"{shown(member)}: not copied, a package may not bring Python code" for member in code)
    files = {
        member[len(folder) + 1 if folder else 0 :]: member
        for member in members
        if member != MANIFEST and not _is_code(member)
    }
    pointers = list(_pointers(package, files.values()))
    if pointers:
        notes.problems.extend(pointers)
        return None
    native = tuple(runtime.native(sorted(files.values())))
    facts, pickles = _facts(package, name, runtime, files, notes)
    return Artifact(name, files, facts, native, pickles)


def _is_code(member: str) -> bool:
    return member.lower().endswith((".py", ".pyc"))


def _pointers(package: Package, members: Iterable[str]) -> Iterator[str]:
    for member in members:
        size = package.members[member]
        if size < _POINTER_BYTES and is_lfs_pointer(package.head(member, size)):
            yield f"{shown(member)}: expected the file itself, got a Git LFS pointer; run `git lfs pull` and pack again"


def _facts(
    package: Package, name: str, runtime: Family, files: Mapping[str, str], notes: Notes
) -> tuple[ArtifactFacts | None, Mapping[str, str]]:
    """Read an ONNX file, if this engine takes such files (elsewhere the ending means nothing), else ask the engine.

    Returns:
        What the graph says of itself, and what runs code when it is loaded (`Artifact.pickles`).
    """
    if runtime.artifact.endswith(ONNX) and name.lower().endswith(ONNX):
        with package.open(name) as stream:
            facts = read_onnx_facts(stream, package.members[name], name)
        notes.problems.extend(_external_problems(name, facts, files))
        return facts, {}
    plain, problems = runtime.read_facts(name, {file: package.members[file] for file in files.values()}, package.head)
    notes.problems.extend(problems)
    plain = plain or {}
    return graph_facts(plain) if "inputs" in plain else None, plain.get("pickles", {})


def _external_problems(name: str, facts: OnnxFacts, files: Mapping[str, str]) -> Iterator[str]:
    for location in facts.external_files:
        if not location or _climbs(location) or location.startswith(_MEMORY):
            yield (
                f"{shown(name)}: external data: expected a file inside the package, got {as_json(location)}; "
                "export again with the data beside the model"
            )
        elif posixpath.normpath(location) not in files:
            yield (
                f"{shown(name)}: external data: expected {shown(location)} beside it, got {_listed(files)}; "
                "add the file"
            )


def _climbs(path: str) -> bool:
    """Tell whether a path is absolute, has a drive, or leads up, on any system."""
    return path.startswith(("/", "\\")) or path[1:2] == ":" or ".." in path.replace("\\", "/").split("/")


def _listed(names: Mapping[str, object]) -> str:
    first = sorted(names)[:_NAMES_SHOWN]
    rest = len(names) - len(first)
    return (", ".join(map(shown, first)) or "nothing") + (f" and {rest} more" if rest else "")
