"""The only module that knows where the payload lies: inside this package when installed, else in the checkout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_INSTALLED = _PACKAGE / "_payload"
ROOT = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent

TEMPLATES = ROOT / "templates"
RUNTIMES = ROOT / "runtimes"
POSTPROCESSORS = ROOT / "postprocessors"

SUPPORT = "support.py"
REQUIREMENTS = "requirements.txt"
# What the tool reads, what tests and people read, and what running it leaves behind; everything else is payload.
_LEFT_OUT_FOLDERS = {"tests", "__pycache__"}
_LEFT_OUT_FILES = {SUPPORT, REQUIREMENTS}
_LEFT_OUT_ENDINGS = {".j2", ".md", ".pyc"}


def template_files(kind: str) -> Iterator[tuple[str, Path]]:
    """Yield (path in the version folder, file) of what is copied beside `model.py` for a model of this kind."""
    root = TEMPLATES / kind
    for path in _files(root):
        if path.name != "__init__.py":  # the folder is no package there
            yield path.relative_to(root).as_posix(), path


def code_files(root: Path, families: frozenset[str]) -> Iterator[tuple[str, Path]]:
    """Yield (path in the version folder, file) of the named families of `root`, and of what they share.

    A folder of `runtimes/` or `postprocessors/` with a support.py is a family; everything else is shared payload.
    """
    for path in _files(root):
        parts = path.relative_to(root).parts
        other_family = len(parts) > 1 and (root / parts[0] / SUPPORT).is_file() and parts[0] not in families
        if not other_family:
            yield f"{root.name}/{'/'.join(parts)}", path


def _files(root: Path) -> Iterator[Path]:
    """Yield the payload's files below a folder, sorted."""
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        hidden = any(part.startswith(".") for part in parts)
        left_out = path.name in _LEFT_OUT_FILES or path.suffix in _LEFT_OUT_ENDINGS
        if path.is_file() and not (hidden or left_out or _LEFT_OUT_FOLDERS.intersection(parts)):
            yield path


def requirements(family: Path) -> list[str]:
    """Return what the server's python needs for a family, one requirement per line; none when it says nothing."""
    listed = family / REQUIREMENTS
    if not listed.is_file():
        return []
    lines = (line.split("#")[0].strip() for line in listed.read_text("utf-8").splitlines())
    return [line for line in lines if line]
