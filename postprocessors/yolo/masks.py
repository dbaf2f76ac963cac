"""Masks of YOLO's segmentation heads: every object's coefficients times the prototypes it shares with the others.

A pixel belongs to the object where its logit, bilinear between the prototypes' cells, is above 0 and its place is
inside the box (`x1 <= column < x2`, likewise the rows). That is Ultralytics' rule at the network's size
(`process_mask`) and, for its `retina_masks`, at the source's (`process_mask_native`); the masks that leave here are of
the source's size, the letterbox's padding taken off first.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..geometry import FloatArray, FrameGeometry
from ..results import InstanceMask

# Logits of so many cells, and of so many pixels, are held at a time: 16 MB, and what a core's cache holds.
PLANE_CELLS = 1 << 22
BLOCK_PIXELS = 1 << 16
# What is no number is no object.
NO_OBJECT = -1.0
LARGEST = 1e30


class Axis(NamedTuple):
    """Pixels along one axis, in cells of the prototypes: `weight` of the way from the cell `low` to `high`."""

    low: npt.NDArray[np.intp]
    high: npt.NDArray[np.intp]
    weight: FloatArray

    def part(self, start: int, stop: int) -> Axis:
        """Return the pixels from `start` to before `stop`."""
        return Axis(self.low[start:stop], self.high[start:stop], self.weight[start:stop])

    def reach(self, counts: npt.NDArray[np.bool_]) -> tuple[int, int]:
        """Return the first pixel, and the one after the last, that a cell which `counts` contributes to."""
        touched = np.flatnonzero(counts[self.low] | counts[self.high])
        return (int(touched[0]), int(touched[-1]) + 1) if len(touched) else (0, 0)


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

    def masks(self, coefficients: FloatArray, boxes: FloatArray) -> Iterator[InstanceMask | None]:
        """Yield every object's mask; None where it has no pixel at the network's size, as Ultralytics drops it.

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
        for start in range(0, len(coefficients), step):
            planes = self._planes(coefficients[start : start + step])
            for index, plane in enumerate(planes, start):
                yield self._mask(plane, network_pixels[index], source_pixels[index])

    def _planes(self, coefficients: FloatArray) -> FloatArray:
        """Return logits [n, h, w]; finite."""
        with np.errstate(invalid="ignore", over="ignore"):
            planes = coefficients @ self._prototypes
            if not np.isfinite(planes.sum()):
                planes = np.clip(np.nan_to_num(planes, nan=NO_OBJECT), -LARGEST, LARGEST)
        return planes.reshape(-1, *self._cells)

    def _mask(self, plane: FloatArray, network: list[int], source: list[int]) -> InstanceMask | None:
        seen = _cut(plane, self._network, network)
        if not seen.pixels.any():
            return None
        return seen if self._same_pixels else _cut(plane, self._source, source)


def _axis(centres: npt.NDArray[np.float64], size: int, cells: int) -> Axis:
    """Return pixels whose centres are given on an axis of `size` that `cells` cells span."""
    places = np.clip(centres * (cells / size) - 0.5, 0, cells - 1)
    low = places.astype(np.intp)
    return Axis(low, np.minimum(low + 1, cells - 1), (places - low).astype(np.float32))


def _cut(plane: FloatArray, axes: list[Axis], pixels: list[int]) -> InstanceMask:
    """Return where the bilinear logit is above 0, among the pixels from x1, y1 to before x2, y2."""
    x1, y1, x2, y2 = pixels
    rows, columns = axes[0].part(y1, y2), axes[1].part(x1, x2)
    if not len(rows.low) or not len(columns.low):
        return InstanceMask(0, 0, np.zeros((0, 0), np.uint8))
    # Between cells that are not above 0 there is nothing; the rest is looked at.
    top_cell, left_cell = rows.low[0], columns.low[0]
    positive = plane[top_cell : rows.high[-1] + 1, left_cell : columns.high[-1] + 1] > 0
    (top, bottom), (left, right) = (
        axis._replace(low=axis.low - first, high=axis.high - first).reach(positive.any(axis=1 - dimension))
        for dimension, (axis, first) in enumerate(((rows, top_cell), (columns, left_cell)))
    )
    if top == bottom or left == right:
        return InstanceMask(0, 0, np.zeros((0, 0), np.uint8))
    inside = _positive(plane, rows.part(top, bottom), columns.part(left, right))
    return InstanceMask(y1 + top, x1 + left, inside.view(np.uint8))


def _positive(plane: FloatArray, rows: Axis, columns: Axis) -> npt.NDArray[np.bool_]:
    """Return where the bilinear logit is above 0, bool [rows, columns], neither of them empty."""
    used = plane[rows.low[0] : rows.high[-1] + 1]
    wide = np.ascontiguousarray(_mixed(np.ascontiguousarray(used.T), columns).T)
    shifted = rows._replace(low=rows.low - rows.low[0], high=rows.high - rows.low[0])
    inside = np.empty((len(rows.low), len(columns.low)), bool)
    step = max(BLOCK_PIXELS // len(columns.low), 1)
    for start in range(0, len(inside), step):
        np.greater(_mixed(wide, shifted.part(start, start + step)), 0, out=inside[start : start + step])
    return inside


def _mixed(values: FloatArray, axis: Axis) -> FloatArray:
    """Return `values` [cells, k] at the pixels of `axis`, [n, k]."""
    with np.errstate(over="ignore"):
        low = values.take(axis.low, axis=0)
        low *= (1 - axis.weight)[:, None]
        high = values.take(axis.high, axis=0)
        high *= axis.weight[:, None]
        low += high
    return low
