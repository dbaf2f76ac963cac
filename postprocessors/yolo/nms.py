"""Greedy non-maximum suppression in blocks: memory stays flat whatever the number of candidates.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
BLOCK = 128


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
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    groups = np.zeros_like(class_ids) if class_agnostic else class_ids
    kept = np.zeros(0, np.intp)
    for start in range(0, len(boxes), BLOCK):
        block = np.arange(start, min(start + BLOCK, len(boxes)))
        if len(kept):
            hit = _overlap(boxes, areas, groups, block, kept, iou_threshold)
            block = block[~hit.any(axis=1)]
        conflict = _overlap(boxes, areas, groups, block, block, iou_threshold)
        kept = np.concatenate([kept, block[_greedy(conflict)]])
        if len(kept) >= max_det:
            break
    return kept[:max_det]


def _overlap(
    boxes: FloatArray,
    areas: FloatArray,
    groups: npt.NDArray[Any],
    rows: npt.NDArray[np.intp],
    columns: npt.NDArray[np.intp],
    iou_threshold: float,
) -> npt.NDArray[np.bool_]:
    """Return bool [rows, columns]: same group and IoU above the threshold."""
    a, b = boxes[rows].T[:, :, None], boxes[columns].T[:, None, :]
    width = np.minimum(a[2], b[2]) - np.maximum(a[0], b[0])
    height = np.minimum(a[3], b[3]) - np.maximum(a[1], b[1])
    shared = np.maximum(width, 0) * np.maximum(height, 0)
    union = areas[rows][:, None] + areas[columns][None, :] - shared
    return (shared > np.float32(iou_threshold) * union) & (groups[rows][:, None] == groups[columns][None, :])


def _greedy(conflict: npt.NDArray[np.bool_]) -> list[int]:
    """Return the rows that survive when each survivor drops the later rows it conflicts with."""
    alive = np.ones(len(conflict), bool)
    survivors: list[int] = []
    for row in range(len(conflict)):
        if alive[row]:
            survivors.append(row)
            alive &= ~conflict[row]
    return survivors
