"""Masks of YOLO's segmentation heads: every object's coefficients times the prototypes it shares with the others.

A pixel belongs to the object where its logit, bilinear between the prototypes' cells, is above 0 and its place is
inside the box (`x1 <= column < x2`, likewise the rows). That is Ultralytics' rule at the network's size
(`process_mask`) and, for its `retina_masks`, at the source's (`process_mask_native`); the masks that leave here are of
the source's size, the letterbox's padding taken off first.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..geometry import FloatArray, FrameGeometry
from ..results import InstanceMask

# Logits of so many cells, and of so many pixels, are held at a time: 16 MB, and what a core's cache holds.
PLANE_CELLS = 1 << 22
BLOCK_PIXELS = 1 << 16
# What is no number is no object. Sums of two larger logits overflow.
NO_OBJECT = -1.0
LARGEST = 1e37
NOTHING = InstanceMask(0, 0, np.zeros((0, 0), np.uint8))


class Axis(NamedTuple):
    """Pixels along one axis, in cells of the prototypes: `weight` of the way from the cell `low` to the next one.

    Attributes:
        low: By pixel; rising.
        weight: By pixel, 0..1.
        first: By cell, the first pixel that it contributes to.
        after: By cell, the first pixel after those.
    """

    low: npt.NDArray[np.intp]
    weight: FloatArray
    first: list[int]
    after: list[int]


class MaskRule:
    """Cuts the masks of one image's objects.

    Args:
        prototypes: [M, h, w] over the network's input, none of them 0.
        frame: Where the image lies in the network's input.
    """

    def __init__(self, prototypes: npt.NDArray[np.generic], frame: FrameGeometry) -> None:
        self._prototypes = prototypes.reshape(len(prototypes), -1).astype(np.float32, copy=False)
        self._cells = prototypes.shape[1], prototypes.shape[2]
        self._frame = frame
        self._network = [_axis(np.arange(n) + 0.5, n, cells) for n, cells in zip(frame.network, self._cells)]
        self._source = [self._source_axis(axis) for axis in (0, 1)]
        self._same_pixels = frame == FrameGeometry(frame.network, frame.network, frame.network)

    def _source_axis(self, axis: int) -> Axis:
        frame = self._frame
        source, resized, network, offset = (x[axis] for x in (frame.source, frame.resized, frame.network, frame.offset))
        centres = (np.arange(source) + 0.5) * (resized / source) + offset
        # The padding has logits too; the image's last pixel is not mixed with them.
        first, last = max(offset, 0) + 0.5, min(offset + resized, network) - 0.5
        return _axis(np.clip(centres, first, max(first, last)), network, self._cells[axis])

    def masks(self, coefficients: FloatArray, boxes: FloatArray) -> list[InstanceMask | None]:
        """Return every object's mask; None where it has no pixel at the network's size, as Ultralytics drops it.

        One that has one there, but none in the source, is an empty cut-out.

        Args:
            coefficients: [n, M].
            boxes: xyxy [n, 4] in pixels of the network's input.
        """
        height, width = self._frame.network
        on_network = np.clip(boxes, 0, np.array([width, height, width, height], np.float32))
        # The first pixel inside, and the first one after the box.
        network_pixels = np.ceil(on_network).astype(np.intp).tolist()
        source_pixels = np.ceil(self._frame.to_source(on_network)).astype(np.intp).tolist()
        step = max(PLANE_CELLS // (self._cells[0] * self._cells[1]), 1)
        masks: list[InstanceMask | None] = []
        for start in range(0, len(coefficients), step):
            for plane in self._planes(coefficients[start : start + step]):
                masks.append(self._mask(plane, network_pixels[len(masks)], source_pixels[len(masks)]))
        return masks

    def _planes(self, coefficients: FloatArray) -> FloatArray:
        """Return logits [n, h, w]; finite."""
        with np.errstate(invalid="ignore", over="ignore"):
            planes = coefficients @ self._prototypes
            # One pass tells whether any is so large: its square is infinite then.
            if not np.isfinite(np.vdot(planes, planes)):
                planes = np.clip(np.nan_to_num(planes, nan=NO_OBJECT), -LARGEST, LARGEST)
        return planes.reshape(-1, *self._cells)

    def _mask(self, plane: FloatArray, network: list[int], source: list[int]) -> InstanceMask | None:
        if self._same_pixels:
            mask = _cut(plane, self._network, network)
            return mask if mask.area else None
        # Most objects show at their best cell; the others' pixels are all looked at.
        if not _shows(plane, self._network, network) and not _cut(plane, self._network, network).area:
            return None
        return _cut(plane, self._source, source)


def _axis(centres: npt.NDArray[np.float64], size: int, cells: int) -> Axis:
    """Return pixels whose centres are given on an axis of `size` that `cells` cells span."""
    places = np.clip(centres * (cells / size) - 0.5, 0, cells - 1)
    low = places.astype(np.intp)
    numbers = np.arange(cells)
    first, after = np.searchsorted(low, numbers - 1), np.searchsorted(low, numbers, side="right")
    return Axis(low, (places - low).astype(np.float32), first.tolist(), after.tolist())


def _part(plane: FloatArray, axes: list[Axis], pixels: list[int]) -> tuple[FloatArray, int, int]:
    """Return the cells that contribute to the pixels from x1, y1 to before x2, y2 (some), and the first of them."""
    x1, y1, x2, y2 = pixels
    top, left = int(axes[0].low[y1]), int(axes[1].low[x1])
    return plane[top : axes[0].low[y2 - 1] + 2, left : axes[1].low[x2 - 1] + 2], top, left


def _shows(plane: FloatArray, axes: list[Axis], pixels: list[int]) -> bool:
    """Return whether the logit is above 0 at the pixel nearest to the largest cell; there may be others if not."""
    x1, y1, x2, y2 = pixels
    if x1 >= x2 or y1 >= y2:
        return False
    part, top, left = _part(plane, axes, pixels)
    row, column = divmod(int(part.argmax()), part.shape[1])
    y = min(max((axes[0].first[top + row] + axes[0].after[top + row]) // 2, y1), y2 - 1)
    x = min(max((axes[1].first[left + column] + axes[1].after[left + column]) // 2, x1), x2 - 1)
    return bool(_positive(plane, axes, (y, y + 1), (x, x + 1))[0, 0])


def _cut(plane: FloatArray, axes: list[Axis], pixels: list[int]) -> InstanceMask:
    """Return where the bilinear logit is above 0, among the pixels from x1, y1 to before x2, y2."""
    x1, y1, x2, y2 = pixels
    if x1 >= x2 or y1 >= y2:
        return NOTHING
    # Between cells that are not above 0 there is nothing; the rest is looked at.
    part, top, left = _part(plane, axes, pixels)
    above = part > 0
    rows, columns = np.flatnonzero(above.any(axis=1)), np.flatnonzero(above.any(axis=0))
    if not len(rows):
        return NOTHING
    y1, y2 = _narrowed(axes[0], y1, y2, top + rows)
    x1, x2 = _narrowed(axes[1], x1, x2, left + columns)
    if y1 >= y2 or x1 >= x2:
        return NOTHING
    return InstanceMask(y1, x1, _positive(plane, axes, (y1, y2), (x1, x2)).view(np.uint8))


def _narrowed(axis: Axis, start: int, stop: int, cells: npt.NDArray[np.intp]) -> tuple[int, int]:
    """Return the pixels from `start` to before `stop` that these cells (rising, some) contribute to; maybe none."""
    return max(start, axis.first[int(cells[0])]), min(stop, axis.after[int(cells[-1])])


def _positive(
    plane: FloatArray, axes: list[Axis], rows: tuple[int, int], columns: tuple[int, int]
) -> npt.NDArray[np.bool_]:
    """Return where the bilinear logit is above 0, bool, in these rows and columns (some)."""
    across, down = slice(*columns), slice(*rows)
    low = axes[1].low[across]
    used = plane[axes[0].low[rows[0]] : axes[0].low[rows[1] - 1] + 2]
    wide: FloatArray = used.take(low, axis=1)
    wide += axes[1].weight[across] * (used.take(np.minimum(low + 1, plane.shape[1] - 1), axis=1) - wide)
    # From each row of cells to the next one; the last one is the plane's own.
    rise: FloatArray = np.zeros_like(wide)
    np.subtract(wide[1:], wide[:-1], out=rise[:-1])
    np.negative(wide, out=wide)
    cells, weights = axes[0].low[down] - axes[0].low[rows[0]], axes[0].weight[down].reshape(-1, 1)
    inside = np.empty((len(cells), wide.shape[1]), bool)
    step = max(BLOCK_PIXELS // wide.shape[1], 1)
    for start in range(0, len(cells), step):
        block = slice(start, start + step)
        gained = rise[cells[block]] * weights[block]
        np.greater(gained, wide[cells[block]], out=inside[block])
    return inside
