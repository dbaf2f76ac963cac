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
    if len(rest):
        settled.append(candidates.blocks(rest, max_det))
    if len(settled) < 2:
        return settled[0][:max_det] if settled else rest
    survivors = np.concatenate(settled)
    survivors.sort()
    return survivors[:max_det]


class _Candidates:
    """Boxes and their classes in the memory order that pairwise arithmetic is fast in."""

    def __init__(self, boxes: FloatArray, class_ids: npt.NDArray[Any], iou_threshold: float) -> None:
        # -x1, -y1, x2, y2, area by candidate: where two boxes overlap is then one minimum.
        self._columns = np.empty((5, len(boxes)), np.float32)
        self._columns[:4] = boxes.T
        low, high = self._columns[:2], self._columns[2:4]
        width, height = high - low
        np.negative(low, out=low)
        # An area below what float32 can hold counts as the smallest that it can: nothing is divided by zero.
        np.maximum(width * height, SMALLEST_AREA, out=self._columns[4])
        self._groups = class_ids
        # torchvision compares a float32 IoU with a double: above this is above that.
        limit = np.float32(iou_threshold)
        self._limit = limit if float(limit) <= iou_threshold else np.nextafter(limit, np.float32(-1))

    def rounds(self) -> tuple[list[IndexArray], IndexArray]:
        """Return survivors, round by round, and the candidates in order that these do not drop.

        The best candidate left of every class survives and drops what it overlaps, all classes at once.
        """
        order = np.arange(len(self._groups))
        groups, columns = self._groups, self._columns
        survivors: list[IndexArray] = []
        best = np.empty(int(np.maximum.reduce(groups, initial=0)) + 1, np.intp)
        while len(order):
            places = np.arange(len(order))
            # Written backwards: of a class's candidates the best is written last and stays.
            best.put(groups[::-1], places[::-1])
            leaders = best.take(groups)
            firsts: IndexArray = (leaders == places).nonzero()[0]
            if len(order) > len(firsts) * LARGEST_GROUP:
                break
            left = _iou(columns, columns.take(leaders, axis=1)) <= self._limit
            left[firsts] = False
            survivors.append(order.take(firsts))
            rest = left.nonzero()[0]
            if not len(rest):
                return survivors, rest
            done = len(order) - len(rest)
            order, groups, columns = order.take(rest), groups.take(rest), columns.take(rest, axis=1)
            if done * ROUND_SHARE < len(order):
                break
        return survivors, order

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
    """Return the IoU of boxes given as -x1, -y1, x2, y2, area along the first axis; the rest is broadcast."""
    corners = np.minimum(a[:4], b[:4])
    sides = corners[:2] + corners[2:]
    # Boxes apart share nothing. A maximum of two arrays is several times as fast as that of an array and a number.
    np.maximum(sides, np.zeros(sides.shape, np.float32), out=sides)
    shared = sides[0] * sides[1]
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
