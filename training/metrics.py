"""Average precision and AUROC in numpy; independent of the product, so that tests may judge the product by them.

Average precision is COCO's: 101 recall points, IoU 0.50 to 0.95 in steps of 0.05, averaged over the classes that occur
in the truth. No crowd regions, no size ranges, no limit on the number of detections.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
THRESHOLDS = np.arange(0.5, 1.0, 0.05)


@dataclass(frozen=True)
class Found:
    """Detections of one image: boxes [n, 4] xyxy, scores [n] and class ids [n], in any order."""

    boxes: Floats
    scores: Floats
    class_ids: Ints


@dataclass(frozen=True)
class Truth:
    """The true boxes [n, 4] xyxy and class ids [n] of one image."""

    boxes: Floats
    class_ids: Ints


def box_iou(first: Floats, second: Floats) -> Floats:
    """Return the IoU [n, m] of xyxy boxes [n, 4] and [m, 4]; zero where a union is empty."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=2)
    areas = [np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) for boxes in (first, second)]
    union = areas[0][:, None] + areas[1][None] - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def _match(overlaps: Floats) -> npt.NDArray[np.bool_]:
    """Match detections (rows, best first) to truth (columns) greedily; return hits [len(THRESHOLDS), rows]."""
    hits = np.zeros((len(THRESHOLDS), len(overlaps)), bool)
    for level, threshold in enumerate(THRESHOLDS):
        free = np.ones(overlaps.shape[1], bool)
        for row, overlap in enumerate(overlaps):
            candidates = np.where(free, overlap, -1)
            if candidates.size and candidates.max() >= threshold - 1e-9:
                hits[level, row] = True
                free[candidates.argmax()] = False
    return hits


def _precision_at_recalls(hits: npt.NDArray[np.bool_], total: int) -> float:
    """Return the mean interpolated precision at 101 recalls; `hits` is ordered by falling score."""
    positives = np.cumsum(hits)
    precision = positives / np.arange(1, len(hits) + 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    places = np.searchsorted(positives / total, np.linspace(0, 1, 101) - 1e-12)
    return float(np.append(envelope, 0.0)[places].mean())


def _class_precision(found: Sequence[Found], truth: Sequence[Truth], class_id: int) -> npt.NDArray[np.float64]:
    """Return the average precision of one class at each of THRESHOLDS."""
    scores: list[Floats] = []
    hits: list[npt.NDArray[np.bool_]] = []
    for detections, expected in zip(found, truth):
        mine = np.flatnonzero(detections.class_ids == class_id)
        mine = mine[np.argsort(-detections.scores[mine], kind="stable")]
        scores.append(detections.scores[mine])
        hits.append(_match(box_iou(detections.boxes[mine], expected.boxes[expected.class_ids == class_id])))
    order = np.argsort(-np.concatenate(scores), kind="stable")
    ranked = np.concatenate(hits, axis=1)[:, order]
    total = sum(int((expected.class_ids == class_id).sum()) for expected in truth)
    return np.array([_precision_at_recalls(row, total) for row in ranked])


def average_precision(found: Sequence[Found], truth: Sequence[Truth]) -> tuple[float, float]:
    """Return (mAP50, mAP50-95) over the images of `found` and `truth`, in the same order; 0 without any truth."""
    class_ids = sorted({int(class_id) for expected in truth for class_id in expected.class_ids})
    if not class_ids:
        return 0.0, 0.0
    table = np.stack([_class_precision(found, truth, class_id) for class_id in class_ids])
    return float(table[:, 0].mean()), float(table.mean())


def auroc(scores: Floats, labels: npt.NDArray[np.bool_]) -> float:
    """Return the chance that a positive scores above a negative (ties count half); needs one of each."""
    positive, negative = scores[labels], scores[~labels]
    above = (positive[:, None] > negative[None]).mean()
    return float(above + 0.5 * (positive[:, None] == negative[None]).mean())
