"""Greedy non-maximum suppression in blocks: memory stays flat whatever the number of candidates.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
# Later blocks may be larger: the boxes that are kept by then drop most of them.
FIRST_BLOCK, LARGEST_BLOCK = 96, 384


def suppress(
    boxes: FloatArray, class_ids: npt.NDArray[Any], iou_threshold: float, max_det: int, class_agnostic: bool
) -> npt.NDArray[np.intp]:
    """Return the indices of the boxes that survive, in order, at most `max_det`.

    A box is dropped when an earlier survivor of its class (of any class with `class_agnostic`) has IoU above
    `iou_threshold`; equal IoU is kept and areas have no `+ 1`, as torchvision's nms has it.

    Args:
        boxes: float32 [n, 4] xyxy with positive area, best first.
        class_ids: [n].
        iou_threshold: 0..1.
        max_det: How many survivors are wanted.
        class_agnostic: Compare boxes of different classes too.
    """
    candidates = _Candidates(boxes, np.zeros_like(class_ids) if class_agnostic else class_ids)
    kept, start, size = np.zeros(0, np.intp), 0, FIRST_BLOCK
    while start < len(boxes) and len(kept) < max_det:
        block = np.arange(start, min(start + size, len(boxes)))
        start, size = start + size, min(2 * size, LARGEST_BLOCK)
        if len(kept):
            block = block[~candidates.conflicts(block, kept, iou_threshold).any(axis=1)]
        if not len(block):
            continue
        kept = np.concatenate([kept, block[_greedy(candidates.conflicts(block, block, iou_threshold))]])
    return kept[:max_det]


class _Candidates:
    """Boxes and their classes in the memory order that pairwise arithmetic is fast in."""

    def __init__(self, boxes: FloatArray, class_ids: npt.NDArray[Any]) -> None:
        self._corners = np.ascontiguousarray(boxes.T)
        self._areas = (self._corners[2] - self._corners[0]) * (self._corners[3] - self._corners[1])
        self._groups = class_ids.astype(np.int32)

    def conflicts(
        self, rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp], iou_threshold: float
    ) -> npt.NDArray[np.bool_]:
        """Return bool [rows, columns]: same class and IoU above the threshold."""
        # take, not indexing: indexing returns a transposed array, which costs three times as much below.
        a, b = self._corners.take(rows, axis=1)[:, :, None], self._corners.take(columns, axis=1)[:, None]
        sides = np.minimum(a[2:], b[2:])
        sides -= np.maximum(a[:2], b[:2])
        np.maximum(sides, 0, out=sides)
        shared = sides[0] * sides[1]
        union = self._areas[rows][:, None] + self._areas[columns]
        union -= shared
        union *= np.float32(iou_threshold)
        return (shared > union) & (self._groups[rows][:, None] == self._groups[columns])


def _greedy(conflict: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which rows survive when each survivor drops the later rows it conflicts with."""
    np.fill_diagonal(conflict, False)
    alive, free = np.ones(len(conflict), bool), ~conflict
    for row in np.flatnonzero(conflict.any(axis=1)).tolist():
        if alive[row]:
            alive &= free[row]
    return alive
