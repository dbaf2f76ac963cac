"""Suppression against a loop over pairs that needs no explanation, and against OpenCV's."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from postprocessors.yolo.nms import FIRST_BLOCK, LARGEST_BLOCK, suppress


def iou(a: np.ndarray, b: np.ndarray) -> float:
    width = max(min(a[2], b[2]) - max(a[0], b[0]), 0.0)
    height = max(min(a[3], b[3]) - max(a[1], b[1]), 0.0)
    shared = width * height
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def slow(boxes: np.ndarray, class_ids: np.ndarray, threshold: float, max_det: int, class_agnostic: bool) -> list[int]:
    survivors: list[int] = []
    for index, box in enumerate(boxes.astype(np.float64)):
        rivals = [s for s in survivors if class_agnostic or class_ids[s] == class_ids[index]]
        if all(iou(box, boxes[s].astype(np.float64)) <= threshold for s in rivals):
            survivors.append(index)
    return survivors[:max_det]


def crowd(count: int, seed: int) -> np.ndarray:
    """Return overlapping boxes with whole corners: their IoU is never within rounding of a threshold."""
    rng = np.random.default_rng(seed)
    corners = rng.integers(400, 520, (count, 2))
    return np.concatenate([corners, corners + rng.integers(10, 60, (count, 2))], axis=1).astype(np.float32)


@pytest.mark.parametrize(
    "count", [0, 1, 2, FIRST_BLOCK - 1, FIRST_BLOCK, FIRST_BLOCK + 1, 3 * FIRST_BLOCK, 4 * LARGEST_BLOCK + 5]
)
@pytest.mark.parametrize("threshold", [0.0, 0.3137, 0.7071, 1.0])
@pytest.mark.parametrize("class_agnostic", [False, True])
def test_equals_the_slow_loop(count: int, threshold: float, class_agnostic: bool) -> None:
    boxes = crowd(count, seed=count)
    class_ids = np.random.default_rng(1).integers(0, 3, count)
    for max_det in (1, 7, 1000):
        expected = slow(boxes, class_ids, threshold, max_det, class_agnostic)
        assert suppress(boxes, class_ids, threshold, max_det, class_agnostic).tolist() == expected


@pytest.mark.parametrize("seed", range(3))
def test_equals_opencv(seed: int) -> None:
    boxes = crowd(300, seed)
    class_ids = np.random.default_rng(seed).integers(0, 4, 300)
    scores = np.linspace(0.99, 0.3, 300, dtype=np.float32)
    xywh = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)
    expected = cv2.dnn.NMSBoxesBatched(xywh.tolist(), scores.tolist(), class_ids.tolist(), 0.0, 0.45)
    assert suppress(boxes, class_ids, 0.45, 300, class_agnostic=False).tolist() == sorted(np.ravel(expected).tolist())


def test_equal_iou_is_kept() -> None:
    # Shared 50, union 100: IoU is exactly 0.5.
    boxes = np.array([[0, 0, 10, 7.5], [0, 2.5, 10, 10]], np.float32)
    ids = np.zeros(2, np.int64)
    assert suppress(boxes, ids, 0.5, 300, class_agnostic=False).tolist() == [0, 1]
    assert suppress(boxes, ids, 0.499, 300, class_agnostic=False).tolist() == [0]


def test_a_dropped_box_drops_nothing() -> None:
    # A chain: each overlaps its neighbour only. The second goes, so the third stays.
    boxes = np.array([[0, 0, 10, 10], [3, 0, 13, 10], [6, 0, 16, 10]], np.float32)
    assert suppress(boxes, np.zeros(3, np.int64), 0.5, 300, class_agnostic=False).tolist() == [0, 2]


def test_an_iou_that_only_rounding_puts_above_the_threshold_counts_as_torchvision_has_it() -> None:
    # Shared 10, union 100: 0.1 as float32 is a little more than the double that it is compared with.
    boxes = np.array([[0, 0, 11, 5], [9, 0, 20, 5]], np.float32)
    assert suppress(boxes, np.zeros(2, np.int64), 0.1, 300, class_agnostic=False).tolist() == [0]
    assert suppress(boxes, np.zeros(2, np.int64), 0.11, 300, class_agnostic=False).tolist() == [0, 1]


def test_areas_below_what_float32_holds_divide_nothing_by_zero() -> None:
    boxes = np.full((2, 4), [0, 0, 1e-30, 1e-30], np.float32)
    assert suppress(boxes, np.zeros(2, np.int64), 0.5, 300, class_agnostic=False).tolist() == [0, 1]
