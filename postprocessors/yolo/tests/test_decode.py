"""YOLO heads whose right answer was worked out by hand; the ids name the field's known faults."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from postprocessors.contract import DecodeError
from postprocessors.geometry import FrameGeometry
from postprocessors.yolo.tests.heads import SQUARE, corner_row, decoder, head, plain

ROW = (320, 320, 64, 128, 2, 0.9)
ROW_FOUND = [(2, 0.9, [288.0, 256.0, 352.0, 384.0])]


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(head(80, 8400, *[(0, 0, 0, 0, 0, 0)] * 17, ROW), id="B01-channels-first"),
        pytest.param(head(80, 8400, ROW).transpose(0, 2, 1), id="B01-transposed-view"),
        pytest.param(np.ascontiguousarray(head(80, 8400, ROW).transpose(0, 2, 1)), id="B01-transposed-copy"),
        pytest.param(head(80, 42, ROW), id="more-channels-than-anchors"),
        pytest.param(head(80, 1, ROW), id="B50-one-anchor"),
        pytest.param(head(80, 8400, ROW).astype(np.float16), id="half-precision"),
    ],
)
def test_axis_of_anchors(raw: np.ndarray) -> None:
    score = float(raw.dtype.type(0.9))
    assert plain(decoder(80)([raw], [SQUARE])[0]) == [(2, round(score, 5), ROW_FOUND[0][2])]


@pytest.mark.parametrize(
    ("outputs", "num_classes", "expected"),
    [
        pytest.param(
            [np.zeros((1, 84, 8400))], 3, "expected 7 or 8 channels for num_classes=3.* got 84", id="B07-stock-weights"
        ),
        pytest.param([np.zeros((1, 25200, 85))], 3, r"got 85 in \[1, 25200, 85\]", id="B07-transposed"),
        pytest.param(
            [np.zeros((10647, 80)), np.zeros((10647, 4))], 80, r"\[10647, 80\], \[10647, 4\]", id="B12-rank-2"
        ),
        pytest.param([np.zeros((1, 84, 10))] * 2, 80, "one output of rank 3", id="two-heads"),
        pytest.param([], 80, "one output of rank 3, got none", id="no-output"),
    ],
)
def test_shapes_that_are_refused(outputs: list[np.ndarray], num_classes: int, expected: str) -> None:
    with pytest.raises(DecodeError, match=expected) as caught:
        decoder(num_classes)(outputs, [SQUARE])
    assert "\n" not in str(caught.value)


def test_named_head_of_another_rank_is_refused() -> None:
    with pytest.raises(DecodeError, match=r"got \[84, 10\]"):
        decoder(80, outputs={"boxes": {"tensor": 0}})([np.zeros((84, 10), np.float32)], [SQUARE])


def test_named_output_wins_over_other_heads() -> None:
    named = decoder(80, outputs={"boxes": {"tensor": "raw"}}, names=("other", "raw"))
    assert plain(named([head(80, 5), head(80, 10, ROW)], [SQUARE])[0]) == ROW_FOUND


def test_fewer_images_than_frames_is_refused() -> None:
    with pytest.raises(DecodeError, match="expected 2 images"):
        decoder(80)([head(80, 10, ROW)], [SQUARE, SQUARE])


def test_a_half_precision_sigmoid_just_above_one_counts_as_one() -> None:
    found = decoder(80)([head(80, 10, (320, 320, 64, 64, 3, 1.0005))], [SQUARE])[0]
    assert found.scores.tolist() == [1.0]


@pytest.mark.parametrize(
    ("corners", "expected"),
    [
        pytest.param((-3.2, -1, 50, 60), [0.0, 0.0, 50.0, 60.0], id="B23-upper-left"),
        pytest.param((600, 600, 660, 655), [600.0, 600.0, 640.0, 640.0], id="B23-lower-right"),
    ],
)
def test_boxes_are_clipped(corners: tuple[float, float, float, float], expected: list[float]) -> None:
    assert plain(decoder(2)([head(2, 9, corner_row(*corners, 0, 0.8))], [SQUARE])[0]) == [(0, 0.8, expected)]


def test_a_box_beside_the_image_is_dropped() -> None:
    assert len(decoder(2)([head(2, 9, corner_row(700, 10, 760, 60, 0, 0.8))], [SQUARE])[0]) == 0


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param((500, 500, 600, 600, 0, 0.9), (610, 500, 710, 600, 0, 0.8), [0.9, 0.8], id="B46-far-from-origin"),
        pytest.param((10, 10, 60, 60, 0, 0.9), (10, 10, 60, 60, 1, 0.8), [0.9, 0.8], id="B47-two-classes"),
        pytest.param((10, 10, 60, 60, 1, 0.9), (10, 10, 60, 60, 1, 0.8), [0.9], id="B47-same-class"),
    ],
)
def test_suppression(first: tuple[Any, ...], second: tuple[Any, ...], expected: list[float]) -> None:
    frame = FrameGeometry((800, 800), (800, 800), (800, 800))
    found = decoder(2)([head(2, 20, corner_row(*first), corner_row(*second))], [frame])[0]
    assert found.scores.tolist() == [pytest.approx(score) for score in expected]


def test_equal_scores_keep_the_order_of_the_anchors() -> None:
    raw = head(1, 60, *[(10 * (anchor + 1), 50, 8, 8, 0, 0.5) for anchor in range(60)])
    found = decoder(1)([raw], [SQUARE])[0]
    assert found.boxes[:, 0].tolist() == [10.0 * (anchor + 1) - 4 for anchor in range(60)]


def test_half_precision_boxes_are_calculated_in_float32() -> None:
    frame = FrameGeometry((2048, 2048), (2048, 2048), (2048, 2048))
    # 1251.5 is no half-precision number, its centre and width are.
    found = decoder(1)([head(1, 9, (1001, 100, 501, 100, 0, 0.5)).astype(np.float16)], [frame])[0]
    assert found.boxes[0].tolist() == [750.5, 50.0, 1251.5, 150.0]


def test_class_agnostic_suppression() -> None:
    raw = head(2, 20, corner_row(10, 10, 60, 60, 0, 0.9), corner_row(10, 10, 60, 60, 1, 0.8))
    assert decoder(2, class_agnostic=True)([raw], [SQUARE])[0].class_ids.tolist() == [0]


@pytest.mark.parametrize(
    "size",
    [
        pytest.param((0, 50), id="B49-no-width"),
        pytest.param((-10, 20), id="B49-negative"),
        pytest.param((-100, 200), id="negative-area-larger-than-the-good-box"),
        pytest.param((-10, -20), id="turned-inside-out"),
    ],
)
def test_boxes_without_area(size: tuple[float, float]) -> None:
    flat = [(100, 100, *size, 0, 0.9), (100, 100, *size, 0, 0.8)]
    found = decoder(1)([head(1, 9, *flat, (300, 300, 20, 20, 0, 0.7))], [SQUARE])[0]
    assert plain(found) == [(0, 0.7, [290.0, 290.0, 310.0, 310.0])]


@pytest.mark.parametrize(
    ("frame", "corners"),
    [
        pytest.param(FrameGeometry((720, 1280), (640, 640), (640, 640)), (0, 0, 640, 640), id="B52-stretch"),
        pytest.param(
            FrameGeometry((720, 1280), (360, 640), (640, 640), (140, 0)), (0, 140, 640, 500), id="B52-letterbox"
        ),
        pytest.param(FrameGeometry((720, 1280), (384, 640), (384, 640)), (0, 0, 640, 384), id="B55-not-square"),
        pytest.param(FrameGeometry((1080, 810), (640, 640), (640, 640)), (0, 0, 640, 640), id="B56-tall"),
        pytest.param(FrameGeometry((720, 1280), (640, 640), (640, 640)), (0, 0, 640, 640), id="B56-wide"),
    ],
)
def test_whole_image_comes_back_whole(frame: FrameGeometry, corners: tuple[float, float, float, float]) -> None:
    height, width = frame.source
    found = decoder(1)([head(1, 9, corner_row(*corners, 0, 0.9))], [frame])[0]
    assert found.boxes.tolist() == [[0.0, 0.0, float(width), float(height)]]


def test_b55_scales_each_axis_by_its_own_factor() -> None:
    frame = FrameGeometry((720, 1280), (384, 640), (384, 640))
    found = decoder(1)([head(1, 9, (100, 100, 40, 80, 0, 0.9))], [frame])[0]
    # sx = 1280 / 640 = 2, sy = 720 / 384 = 1.875
    assert plain(found) == [(0, 0.9, [160.0, 112.5, 240.0, 262.5])]


GOOD = (200, 200, 20, 20, 1, 0.9)
GOOD_FOUND = [(1, 0.9, [190.0, 190.0, 210.0, 210.0])]


@pytest.mark.parametrize(
    ("place", "value", "expected"),
    [
        pytest.param((4, 1), np.nan, GOOD_FOUND, id="B72-nan-beside-a-score"),
        pytest.param((slice(4, None), 0), np.nan, GOOD_FOUND, id="B72-nan-anchor"),
        pytest.param((2, 0), np.nan, GOOD_FOUND, id="B72-nan-box"),
        pytest.param((0, 0), np.inf, GOOD_FOUND, id="B72-infinite-box"),
        pytest.param((slice(2, 4), 0), 3e38, GOOD_FOUND, id="area-beyond-float32"),
        pytest.param((5, 0), np.inf, GOOD_FOUND, id="B72-infinite-score"),
        pytest.param((slice(None), slice(None)), np.nan, [], id="B72-all-nan"),
    ],
)
def test_numbers_that_are_none(place: Any, value: float, expected: list[Any]) -> None:
    # Anchor 0 is spoilt and would be better than the good one, anchor 1.
    raw = head(3, 9, (100, 100, 50, 50, 0, 0.95), GOOD)
    raw[0][place] = value
    if place == (4, 1):
        raw[0, 4:, 0] = 0
    if place == (5, 0):
        raw[0, 4, 0] = 0
    found = decoder(3)([raw], [SQUARE])[0]
    assert plain(found) == expected
    # B74: what leaves is strict JSON.
    json.loads(found.to_json(), parse_constant=pytest.fail)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_b75_found_boxes_are_json(dtype: type) -> None:
    records = json.loads(decoder(3, ["a", "b"])([head(3, 9, GOOD).astype(dtype)], [SQUARE])[0].to_json())
    assert records == [
        {
            "bounding_box": [190.0, 190.0, 210.0, 210.0],
            "class": 1,
            "class_label": "b",
            "confidence": pytest.approx(0.9),
            "confidence_threshold": 0.25,
        }
    ]


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        pytest.param({"score_threshold": 0.25}, [0.5, 0.25], id="threshold-itself-counts"),
        pytest.param({"score_threshold": 0.25, "compare": "greater"}, [0.5], id="vendors-greater"),
        pytest.param({"score_threshold": 0.25, "max_det": 1}, [0.5], id="max-det"),
        pytest.param({"score_threshold": 0.25, "classes": [1]}, [0.25], id="classes-by-id"),
        pytest.param({"score_threshold": 0.25, "classes": ["dog"]}, [0.5], id="classes-by-name"),
        pytest.param({"score_threshold": 0.9, "class_thresholds": {"cat": 0.125}}, [0.25], id="own-threshold"),
    ],
)
def test_selection(settings: dict[str, Any], kept: list[float]) -> None:
    raw = head(2, 9, (100, 100, 20, 20, 0, 0.5), (300, 100, 20, 20, 1, 0.25), (500, 100, 20, 20, 1, 0.124))
    found = decoder(2, ["dog", "cat"], **settings)([raw], [SQUARE])[0]
    assert found.scores.tolist() == kept


def test_a_threshold_is_reported_as_the_package_states_it() -> None:
    raw = head(2, 9, (100, 100, 20, 20, 0, 0.5), (300, 100, 20, 20, 1, 0.3))
    found = decoder(2, ["dog", "cat"], class_thresholds={"cat": 0.3})([raw], [SQUARE])[0]
    assert found.thresholds == (0.25, 0.3)


def test_one_result_per_image() -> None:
    raw = np.concatenate([head(1, 9), head(1, 9, (320, 320, 64, 64, 0, 0.9))])
    small = FrameGeometry((320, 320), (640, 640), (640, 640))
    first, second = decoder(1)([raw], [SQUARE, small])
    assert len(first) == 0
    assert plain(second) == [(0, 0.9, [144.0, 144.0, 176.0, 176.0])]
