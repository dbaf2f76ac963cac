"""What a package holds, checked name by name: the rules that a zip and a folder share.

A name is relative, with forward slashes, and safe to write on Linux and macOS: no climbing, no drive, no control
characters, no two names that one of the two file systems would take for the same file.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["file", "folder", "link", "special"]

# Files that Finder, Explorer and git leave behind; "Icon\r" is Finder's custom folder icon.
_LITTER = frozenset({"__MACOSX", ".DS_Store", "Icon\r", "Thumbs.db", "desktop.ini", ".git"})
_PART_BYTES = 255  # NAME_MAX of ext4, XFS, APFS
_NAME_BYTES = 768  # leaves room for the repository's own path below macOS' PATH_MAX of 1024

_LINK = "is a link; put the file itself there (zip without -y, cp -rL)"
_SPECIAL = "is neither a file nor a folder (a device, pipe or socket); remove it"


@dataclass(frozen=True)
class Limits:
    """Bounds that no real package reaches.

    Attributes:
        members: Files and folders; the largest artifacts, compiled stage folders, have some hundreds.
        total_bytes: All files together, unpacked; a detector has 1 MB to 2 GB, 64 GiB leaves room for the next ones.
        ratio: Unpacked over packed size. Trained weights pack to 60..95 %, pruned ones to 10 %; deflate's own
            maximum is 1032, which is what a bomb has.
        ratio_from: Members below this many bytes may have any ratio (a mask of zeros, a long JSON).
        directory_bytes: Size of a zip's table of contents, which is held in memory (10,000 members need 1 to 2 MB).
    """

    members: int = 10_000
    total_bytes: int = 64 << 30
    ratio: int = 200
    ratio_from: int = 10 << 20
    directory_bytes: int = 4 << 20


@dataclass
class Listing:
    """The accepted files of a package, and every problem met while listing it.

    Attributes:
        limits: The bounds.
        files: Clean name -> size in bytes.
        problems: One line each, without the package's name.
    """

    limits: Limits
    files: dict[str, int] = field(default_factory=dict[str, int])
    problems: list[str] = field(default_factory=list[str])
    _folded: dict[str, str] = field(default_factory=dict[str, str])
    _folders: set[str] = field(default_factory=set[str])

    def add(self, raw: str, kind: Kind, size: int = 0) -> str | None:
        """Check one member and note it.

        Args:
            raw: Its name as the zip or folder has it; `.` and empty parts are dropped, a final slash is ignored.
            kind: What it is.
            size: Its size in bytes, 0 for a folder.

        Returns:
            The clean name of an accepted file; None for a folder, for litter, and where a problem was noted.
        """
        parts = [part for part in raw.split("/") if part not in ("", ".")]
        if is_litter(parts) or (not parts and kind == "folder" and raw.startswith(".")):
            return None
        problem = _name_problem(raw, parts) or {"link": _LINK, "special": _SPECIAL}.get(kind)
        if problem:
            self.problems.append(f"{shown(raw)}: {problem}")
            return None
        folded = _fold(parts)
        self._folders.update(folded[:depth] for depth in _slashes(folded))
        if kind == "folder":
            self._folders.add(folded)
            return None
        name = "/".join(parts)
        twin = self._folded.setdefault(folded, name)
        if name in self.files or twin != name:
            self.problems.append(f"{shown(name)}: {_twin_problem(name, twin)}")
            return None
        self.files[name] = size
        return name

    def finish(self) -> None:
        """Note what only the whole listing shows: a name that is file and folder, and the total size."""
        for folded in self._folders & self._folded.keys():
            self.problems.append(
                f"{shown(self._folded[folded])}: is both a file and a folder; rename or remove one of the two"
            )
        total = sum(self.files.values())
        if total > self.limits.total_bytes:
            self.problems.append(
                f"unpacks to {total} bytes, at most {self.limits.total_bytes} are taken; "
                "keep only the manifest and the artifact in it"
            )


def is_litter(parts: Iterable[str]) -> bool:
    """Say whether a path belongs to what file managers leave behind; a climbing path never does."""
    parts = list(parts)
    return ".." not in parts and any(part in _LITTER or part.startswith("._") for part in parts)


def shown(name: str) -> str:
    """Return a name fit for one line of a terminal: control characters escaped, at most 120 characters."""
    text = "".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in name[:120])
    return text if len(text) <= 120 and len(name) <= 120 else f"{text[:117]}..."


def _name_problem(raw: str, parts: list[str]) -> str | None:
    if raw.startswith("/"):
        return "is an absolute name; pack the folder's content with relative names"
    if ".." in parts:
        return "climbs out with '..'; pack the folder's content with relative names"
    if parts and parts[0][1:2] == ":" and parts[0][:1].isalpha():
        return "has a drive letter; pack the folder's content with relative names"
    if not parts:
        return "has no name; pack the folder again"
    if "\\" in raw or any(unicodedata.category(ch) in ("Cc", "Cs", "Zl", "Zp") for ch in raw):
        return "has a backslash, control or undecodable character in its name; rename it"
    if len(raw.encode()) > _NAME_BYTES or any(len(part.encode()) > _PART_BYTES for part in parts):
        return f"has a name longer than {_NAME_BYTES} bytes ({_PART_BYTES} between slashes); rename it"
    return None


def _twin_problem(name: str, twin: str) -> str:
    if name == twin:
        return "is there twice; pack the folder again"
    return f"differs from {shown(twin)} only in case or accents' encoding, which is one file on macOS; rename one"


def _fold(parts: list[str]) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", "/".join(parts)).casefold())


def _slashes(name: str) -> list[int]:
    return [index for index, ch in enumerate(name) if ch == "/"]
