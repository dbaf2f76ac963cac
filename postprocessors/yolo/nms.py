"""Greedy non-maximum suppression; memory stays flat whatever the number of candidates.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..geometry import FloatArray

IndexArray = npt.NDArray[np.intp]

SMALLEST_AREA = np.finfo(np.float32).tiny
# Later blocks may be larger: the boxes that are kept by then drop most of them.
FIRST_BLOCK, LARGEST_BLOCK = 96, 384
# A round over all classes at once pays while it settles at least one candidate in so many, and for groups up to a size.
ROUND_SHARE, LARGEST_GROUP = 8, 64


def suppress(
    boxes: FloatArray, class_ids: npt.NDArray[Any], iou_threshold: float, max_det: int, class_agnostic: bool
) -> IndexArray:
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
    candidates = _Candidates(boxes, np.zeros_like(class_ids) if class_agnostic else class_ids, iou_threshold)
    settled, rest = candidates.rounds()
    kept = candidates.blocks(rest, max_det)
    if not len(settled):
        return kept[:max_det]
    survivors = np.concatenate([settled, kept])
    survivors.sort()
    return survivors[:max_det]


class _Candidates:
    """Boxes and their classes in the memory order that pairwise arithmetic is fast in."""

    def __init__(self, boxes: FloatArray, class_ids: npt.NDArray[Any], iou_threshold: float) -> None:
        # x1, y1, x2, y2, area by candidate.
        self._columns = np.empty((5, len(boxes)), np.float32)
        self._columns[:4] = boxes.T
        sides = self._columns[2:4] - self._columns[:2]
        # An area below what float32 can hold counts as the smallest that it can: nothing is divided by zero.
        np.maximum(sides[0] * sides[1], SMALLEST_AREA, out=self._columns[4])
        self._groups = class_ids
        # torchvision compares a float32 IoU with a double: above this is above that.
        limit = np.float32(iou_threshold)
        self._limit = limit if float(limit) <= iou_threshold else np.nextafter(limit, np.float32(-1))

    def rounds(self) -> tuple[IndexArray, IndexArray]:
        """Return survivors, and the candidates that these do not drop, both in order.

        The best candidate left of every class survives and drops what it overlaps, all classes at once.
        """
        # Two bytes per class id, which is all there can be, are sorted five times as fast as eight.
        order = np.argsort(self._groups.astype(np.uint16), kind="stable")
        groups, columns = self._groups[order], self._columns.take(order, axis=1)
        survivors: list[IndexArray] = []
        while len(order):
            opens = np.ones(len(order), bool)
            np.not_equal(groups[1:], groups[:-1], out=opens[1:])
            starts = opens.nonzero()[0]
            if len(order) > len(starts) * LARGEST_GROUP:
                break
            leaders: IndexArray = starts[opens.cumsum() - 1]
            left = _iou(columns, columns.take(leaders, axis=1)) <= self._limit
            left[starts] = False
            survivors.append(order[starts])
            rest = left.nonzero()[0]
            done = len(order) - len(rest)
            order, groups, columns = order[rest], groups[rest], columns.take(rest, axis=1)
            if done * ROUND_SHARE < len(order):
                break
        order.sort()
        return np.concatenate(survivors) if survivors else order[:0], order

    def blocks(self, candidates: IndexArray, max_det: int) -> IndexArray:
        """Return the survivors among `candidates`, in order; may be a few more than `max_det`."""
        kept, start, size = candidates[:0], 0, FIRST_BLOCK
        while start < len(candidates) and len(kept) < max_det:
            block = candidates[start : start + size]
            start, size = start + size, min(2 * size, LARGEST_BLOCK)
            if len(kept):
                block = block[~self._conflicts(block, kept).any(axis=1)]
            if len(block):
                kept = np.concatenate([kept, block[_greedy(self._conflicts(block, block))]])
        return kept

    def _conflicts(self, rows: IndexArray, columns: IndexArray) -> npt.NDArray[np.bool_]:
        """Return bool [rows, columns]: same class and IoU above the threshold."""
        # take, not indexing: indexing returns a transposed array, which costs three times as much below.
        a, b = self._columns.take(rows, axis=1)[:, :, None], self._columns.take(columns, axis=1)[:, None]
        return (_iou(a, b) > self._limit) & (self._groups[rows][:, None] == self._groups[columns])


def _iou(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the IoU of boxes given as x1, y1, x2, y2, area along the first axis; the rest is broadcast."""
    sides = np.minimum(a[2:4], b[2:4])
    sides -= np.maximum(a[:2], b[:2])
    np.maximum(sides, 0, out=sides)
    shared = np.multiply(sides[0], sides[1], out=sides[0])
    union = a[4] + b[4]
    union -= shared
    shared /= union
    return shared


def _greedy(conflict: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which rows survive when each survivor drops the later rows it conflicts with."""
    np.fill_diagonal(conflict, False)
    alive, free = np.ones(len(conflict), bool), ~conflict
    for row in np.flatnonzero(conflict.any(axis=1)).tolist():
        if alive[row]:
            alive &= free[row]
    return alive
