"""Where the overlay of each image is written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from convertor.errors import RefusedError, UsageError

STEM = "{stem}"
_SUFFIXES = (".jpg", ".jpeg")


def overlay_paths(target: str, images: Sequence[Path]) -> list[Path]:
    """Return one path per image, all different.

    `target` is a name with `{stem}` in it (replaced by the image's name without its suffix), a folder (one that
    exists, or a name that ends with a slash: `<stem>.overlay.jpg` in it), or the one image's file. Images of the same
    stem get `<stem>-2`, `<stem>-3`, ...

    Raises:
        UsageError: Several images and one file, a name that says another format than JPEG, or an image itself.
    """
    pattern = target
    if STEM not in target and (target.endswith(("/", os.sep)) or Path(target).is_dir()):
        pattern = str(Path(target, f"{STEM}.overlay.jpg"))
    elif STEM not in target and len(images) > 1:
        raise UsageError(f"--overlay {target}: there are {len(images)} images; name a folder (out/) or use {STEM}.jpg")
    if not pattern.lower().endswith(_SUFFIXES):
        raise UsageError(
            f"--overlay {target}: overlays are JPEG files; expected a name that ends with .jpg, or a folder"
        )
    paths = [Path(pattern.replace(STEM, stem)) for stem in _distinct([image.stem for image in images])]
    sources = {_resolved(image): image for image in images}
    for path in paths:
        if _resolved(path) in sources:
            raise UsageError(f"--overlay {target}: would overwrite the image {sources[_resolved(path)]}")
    return paths


def write_overlay(path: Path, jpeg: bytes) -> None:
    """Write an overlay, with the folders above it.

    Raises:
        RefusedError: It cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg)
    except OSError as error:
        raise RefusedError(f"{path}: the overlay cannot be written ({error.strerror})") from error


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _distinct(stems: Sequence[str]) -> list[str]:
    # Compared without case: some file systems do not tell A.jpg from a.jpg.
    taken: set[str] = set()
    distinct: list[str] = []
    for stem in stems:
        name, number = stem, 1
        while name.casefold() in taken:
            number += 1
            name = f"{stem}-{number}"
        taken.add(name.casefold())
        distinct.append(name)
    return distinct
