"""A scene of coloured patches; colour_probe.py finds each patch by its colour. Needs NumPy, nothing more."""

from __future__ import annotations

from typing import Any

import numpy as np

Pixels = np.ndarray[Any, Any]
HEIGHT, WIDTH = 128, 160
# label -> colour, tolerance (of 255), box x1 y1 x2 y2. Multiples of 16: a JPEG's blocks are of one colour.
PATCHES: dict[str, tuple[tuple[int, int, int], float, tuple[int, int, int, int]]] = {
    "red": ((220, 30, 30), 30, (16, 16, 64, 48)),
    "green": ((30, 160, 40), 30, (96, 16, 144, 32)),
    "blue": ((30, 50, 210), 30, (16, 80, 48, 112)),
    "dark": ((0, 0, 0), 30, (112, 64, 144, 112)),
    "level": ((201, 201, 201), 1.5, (64, 96, 96, 112)),
}
GREY = ("dark", "level")


def scene(*labels: str) -> Pixels:
    """Return uint8 [HEIGHT, WIDTH, 3]: the patches on white; all of them when none is named."""
    image = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)
    for label in labels or PATCHES:
        colour, _, (x1, y1, x2, y2) = PATCHES[label]
        image[y1:y2, x1:x2] = colour
    return image


def boxes(*labels: str) -> dict[str, list[float]]:
    """Return the box of each named patch."""
    return {label: [float(side) for side in PATCHES[label][2]] for label in labels or PATCHES}
