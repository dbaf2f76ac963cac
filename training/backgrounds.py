"""Surfaces under what `scenes` draws; the kinds of evaluation never occur in training.

Needs numpy and OpenCV only. Every function takes a generator and (height, width) and returns a float32 relief
[H, W] of about -1..1, which `paint` turns into a coloured image.
"""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
import numpy.typing as npt

Relief = npt.NDArray[np.float32]
Size = tuple[int, int]
Texture = Callable[[np.random.Generator, Size], Relief]


def _axes(rng: np.random.Generator, size: Size, angle: float) -> tuple[Relief, Relief]:
    """Return coordinates along and across a direction, in units of the image's shorter side, randomly shifted."""
    height, width = size
    ys, xs = np.mgrid[0:height, 0:width].astype(np.float32) / min(size)
    along = xs * np.cos(angle) + ys * np.sin(angle)
    across = ys * np.cos(angle) - xs * np.sin(angle)
    shift = rng.uniform(0, 1, 2)
    return (along + shift[0]).astype(np.float32), (across + shift[1]).astype(np.float32)


def _noise(rng: np.random.Generator, size: Size, cells: tuple[int, int]) -> Relief:
    """Return smooth noise with `cells` (rows, columns) independent values across the image."""
    grid = rng.uniform(-1, 1, cells).astype(np.float32)
    return cv2.resize(grid, (size[1], size[0]), interpolation=cv2.INTER_CUBIC)


def _flat(rng: np.random.Generator, size: Size) -> Relief:
    return np.full(size, rng.uniform(-0.2, 0.2), np.float32)


def _gradient(rng: np.random.Generator, size: Size) -> Relief:
    return _noise(rng, size, (2, 2))


def _speckle(rng: np.random.Generator, size: Size) -> Relief:
    cells = int(rng.integers(24, 90))
    return _noise(rng, size, (cells, cells)) * np.float32(0.6)


def _ribs(rng: np.random.Generator, size: Size) -> Relief:
    _, across = _axes(rng, size, rng.choice([0.0, np.pi / 2]) + rng.normal(0, 0.05))
    return np.sin(across * np.float32(2 * np.pi * rng.uniform(5, 16)))


def _seams(rng: np.random.Generator, size: Size) -> Relief:
    _, across = _axes(rng, size, rng.uniform(0, np.pi))
    return np.where((across * rng.uniform(1.5, 4)) % 1 < rng.uniform(0.03, 0.12), -1, 0.2).astype(np.float32)


def _chevrons(rng: np.random.Generator, size: Size) -> Relief:
    along, across = _axes(rng, size, rng.uniform(0, np.pi))
    folded = across + np.abs((along * 2) % 1 - np.float32(0.5))
    return np.sin(folded * np.float32(2 * np.pi * rng.uniform(4, 10)))


def _weave(rng: np.random.Generator, size: Size) -> Relief:
    along, across = _axes(rng, size, rng.uniform(0, np.pi))
    waves = np.float32(2 * np.pi * rng.uniform(8, 16))
    return np.sin(along * waves) * np.sin(across * waves)


def _wood(rng: np.random.Generator, size: Size) -> Relief:
    _, across = _axes(rng, size, rng.uniform(0, np.pi))
    warped = across + _noise(rng, size, (4, 4)) * np.float32(0.12)
    return np.sin(warped * np.float32(2 * np.pi * rng.uniform(6, 12)))


def _blotches(rng: np.random.Generator, size: Size) -> Relief:
    return _noise(rng, size, (6, 8)) * np.float32(0.7) + _noise(rng, size, (15, 19)) * np.float32(0.4)


def _brushed(rng: np.random.Generator, size: Size) -> Relief:
    lines = _noise(rng, size, (int(rng.integers(60, 160)), 2))
    return lines if rng.random() < 0.5 else cv2.resize(np.ascontiguousarray(lines.T), (size[1], size[0]))


def _cast(rng: np.random.Generator, size: Size) -> Relief:
    return _speckle(rng, size) + _noise(rng, size, (3, 3)) * np.float32(0.5)


def _brushed_askew(rng: np.random.Generator, size: Size) -> Relief:
    _, across = _axes(rng, size, rng.uniform(0.3, 1.2))
    profile = rng.uniform(-1, 1, 512).astype(np.float32)
    position = (across - across.min()) * np.float32(80)
    return np.interp(position, np.arange(512), profile).astype(np.float32)


def _satin(rng: np.random.Generator, size: Size) -> Relief:
    along, across = _axes(rng, size, rng.uniform(0, np.pi))
    return np.sin(along * np.float32(rng.uniform(4, 9))) * np.float32(0.6) + np.sin(across * 3) * np.float32(0.4)


BELTS: dict[str, dict[str, Texture]] = {
    "train": {
        "flat": _flat,
        "gradient": _gradient,
        "speckle": _speckle,
        "ribs": _ribs,
        "seams": _seams,
        "chevrons": _chevrons,
    },
    "evaluation": {"weave": _weave, "wood": _wood, "blotches": _blotches},
}
PLATES: dict[str, dict[str, Texture]] = {
    "train": {"flat": _flat, "gradient": _gradient, "brushed": _brushed, "cast": _cast},
    "evaluation": {"brushed_askew": _brushed_askew, "satin": _satin},
}


def paint(
    rng: np.random.Generator, size: Size, textures: dict[str, Texture], colour: npt.NDArray[np.float32], depth: float
) -> npt.NDArray[np.float32]:
    """Return float32 [H, W, 3] around `colour` (RGB, 0..255), modulated by one of `textures` by up to `depth`."""
    name = str(rng.choice(sorted(textures)))
    relief = textures[name](rng, size)
    tint = np.clip(rng.normal(1, 0.1, 3), 0.7, 1.3).astype(np.float32) * np.float32(depth)
    return colour + relief[..., None] * tint
