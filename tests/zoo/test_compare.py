"""The comparison itself: our rules on the vendor's list, and every kind of difference found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from postprocessors.geometry import FrameGeometry
from postprocessors.results import Classification, Detections, InstanceMask
from tests.zoo.cases import Found
from tests.zoo.compare import compare, compare_masks

FRAME = FrameGeometry((100, 200), (100, 200), (100, 200))
BOXES = [[10.0, 10, 50, 50], [60, 10, 90, 50]]


def ours(boxes: Any = BOXES, scores: Any = (0.9, 0.8), class_ids: Any = (1, 2), **more: Any) -> Detections:
    count = len(scores)
    return Detections(
        np.array(boxes, np.float32).reshape(-1, 4),
        np.array(scores, np.float32),
        np.array(class_ids, np.int32),
        ("",) * count,
        (0.5,) * count,
        **more,
    )


def vendors(boxes: Any = BOXES, scores: Any = (0.9, 0.8), class_ids: Any = (1, 2), **more: Any) -> Found:
    rotated = more.pop("rotated", None)
    return Found("", {}, np.array(boxes, float), rotated, np.array(scores), np.array(class_ids), **more)


@pytest.mark.parametrize(
    ("found", "problems"),
    [
        pytest.param(ours(), [], id="equal"),
        pytest.param(ours([[10.04, 10, 50, 50], BOXES[1]], (0.9004, 0.8)), [], id="near"),
        pytest.param(ours([[10.06, 10, 50, 50], BOXES[1]]), ["missing", "unexpected"], id="a corner is off"),
        pytest.param(ours(scores=(0.9006, 0.8)), ["missing", "unexpected"], id="a score is off"),
        pytest.param(ours(class_ids=(1, 1)), ["missing", "unexpected"], id="another class"),
        pytest.param(ours(BOXES[:1], (0.9,), (1,)), ["missing"], id="one less"),
        pytest.param(ours([*BOXES, BOXES[0]], (0.9, 0.8, 0.8), (1, 2, 1)), ["unexpected"], id="one more"),
        pytest.param(ours(BOXES[::-1], (0.8, 0.9), (2, 1)), [], id="another order"),
        pytest.param(ours([], (), ()), ["missing", "missing"], id="nothing"),
    ],
)
def test_every_difference_is_found(found: Detections, problems: list[str]) -> None:
    tally = compare(found, vendors(), FRAME)
    assert [problem.partition(":")[0] for problem in tally.problems] == problems


def test_our_rules_are_counted() -> None:
    """One box outside, one clipped, and the best last."""
    found = vendors([[-20, 10, -5, 50], [-5, 10, 50, 50], [60, 10, 90, 50]], (0.9, 0.7, 0.8), (0, 1, 2))
    tally = compare(ours([[60, 10, 90, 50], [0, 10, 50, 50]], (0.8, 0.7), (2, 1)), found, FRAME)
    assert tally.problems == []
    assert (tally.vendors, tally.clipped, tally.dropped, tally.moved, tally.compared) == (3, 2, 1, 2, 2)


def test_tallies_add_up() -> None:
    tally = compare(ours(), vendors(), FRAME) + compare(ours([[10.04, 10, 50, 50], BOXES[1]]), vendors(), FRAME)
    assert (tally.sets, tally.vendors, round(tally.box, 3), tally.keypoint) == (2, 4, 0.04, None)


@pytest.mark.parametrize(
    ("rotated", "good"),
    [
        pytest.param([30, 30, 20, 10, 0.25], True, id="equal"),
        pytest.param([30, 30, 10, 20, 0.25 + np.pi / 2], True, id="sides swapped and turned by a right angle"),
        pytest.param([30, 30, 20, 10, 0.25 + np.pi], True, id="upside down"),
        pytest.param([30, 30, 10, 20, 0.25], False, id="sides swapped"),
        pytest.param([30, 30, 20, 10, 0.26], False, id="turned"),
    ],
)
def test_rotated_boxes_are_compared_by_their_corners(rotated: list[float], good: bool) -> None:
    found = ours([[19, 22, 41, 38]], (0.9,), (1,), rotated=np.array([rotated], np.float32))
    expected = vendors([[0.0] * 4], (0.9,), (1,), rotated=np.array([[30, 30, 20, 10, 0.25]]))
    assert (compare(found, expected, FRAME).problems == []) == good


@pytest.mark.parametrize(
    ("point", "good"),
    [
        pytest.param([20, 20, 0.5], True, id="equal"),
        pytest.param([20.2, 20, 0.5], False, id="off"),
        pytest.param([20, 20, 0.501], False, id="less visible"),
    ],
)
def test_keypoints(point: list[float], good: bool) -> None:
    found = ours(BOXES[:1], (0.9,), (1,), keypoints=np.array([[point, [-5, 20, 1]]], np.float32))
    expected = vendors(BOXES[:1], (0.9,), (1,), keypoints=np.array([[[20, 20, 0.5], [0, 20, 1]]]))
    tally = compare(found, expected, FRAME)
    assert (tally.problems == []) == good
    assert tally.keypoint == pytest.approx(0 if point[0] == 20 else 0.2, abs=1e-4)


@pytest.mark.parametrize(("pixels", "good"), [(1000, True), (1009, True), (1011, False)])
def test_masks(pixels: int, good: bool) -> None:
    mask = np.zeros((40, 40), np.uint8)
    mask.flat[:pixels] = 1
    found = ours(BOXES[:1], (0.9,), (1,), masks=(InstanceMask(10, 10, mask),))
    expected = vendors(BOXES[:1], (0.9,), (1,), mask_areas=np.array([1000]))
    assert (compare_masks(found, expected, FRAME).problems == []) == good
    absent = replace(expected, class_ids=np.array([2]))
    assert compare_masks(found, absent, FRAME).problems[0].startswith("mask: missing")


@pytest.mark.parametrize(
    ("ids", "scores", "good"),
    [
        pytest.param([3, 1], [0.6, 0.2], True, id="equal"),
        pytest.param([1, 3], [0.6, 0.2], False, id="another order"),
        pytest.param([3, 1], [0.6, 0.201], False, id="a score is off"),
    ],
)
def test_classes(ids: list[int], scores: list[float], good: bool) -> None:
    found = Classification(np.array(ids, np.int32), np.array(scores, np.float32), ("", ""))
    expected = vendors([[0.0] * 4] * 2, (0.6, 0.2), (3, 1))
    assert (compare(found, expected, FRAME).problems == []) == good
