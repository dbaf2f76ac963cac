"""What decoders share: geometry, class rules, the wire form."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postprocessors.class_rules import ClassRules, label_of
from postprocessors.contract import DecodeError, DecoderConfig, make_decoder
from postprocessors.geometry import FrameGeometry, plausible
from postprocessors.results import NO_OBJECTS, Detections
from runtimes.preprocessors.base import place

SIDES = st.tuples(st.integers(1, 4000), st.integers(1, 4000))
NETWORKS = st.tuples(st.integers(16, 1300), st.integers(16, 1300))
FRACTIONS = st.tuples(*[st.floats(0, 1)] * 4)


@settings(deadline=None, max_examples=200)
@given(SIDES, NETWORKS, st.booleans(), FRACTIONS)
def test_to_source_is_the_inverse_of_the_preprocessors_placement(
    source: tuple[int, int], network: tuple[int, int], preserve_aspect: bool, fractions: tuple[float, ...]
) -> None:
    """A box of the source, moved as its pixels were moved, comes back within a thousandth of a pixel per 4000."""
    placement = place(source, network, preserve_aspect)
    height, width = source
    x1, x2 = sorted((fractions[0] * width, fractions[1] * width))
    y1, y2 = sorted((fractions[2] * height, fractions[3] * height))
    scale_x, scale_y = placement.resized[1] / width, placement.resized[0] / height
    top, left = placement.offset
    moved = [x1 * scale_x + left, y1 * scale_y + top, x2 * scale_x + left, y2 * scale_y + top]
    back = FrameGeometry(*placement).to_source(np.array([moved], np.float32))
    # A float32 of the network's size carries 1e-4 pixels; the way back multiplies that.
    tolerance = 2e-4 * max(1, 1 / scale_x, 1 / scale_y)
    assert back[0].tolist() == pytest.approx([x1, y1, x2, y2], abs=tolerance)


def test_boxes_outside_are_clipped_to_the_image() -> None:
    frame = FrameGeometry((100, 200), (50, 100), (100, 100), (25, 0))
    boxes = np.array([[-10, 0, 110, 100], [10, 30, 20, 40]], np.float32)
    assert frame.to_source(boxes).tolist() == [[0, 0, 200, 100], [20, 10, 40, 30]]


def test_no_boxes() -> None:
    assert FrameGeometry((9, 9), (9, 9), (9, 9)).to_source(np.zeros((0, 4), np.float32)).shape == (0, 4)


@pytest.mark.parametrize(
    ("names", "class_id", "label"),
    [
        pytest.param(("a", "b"), 1, "b", id="named"),
        pytest.param(("a", "b"), 2, "class_2", id="past-the-names"),
        pytest.param((), 0, "class_0", id="no-names"),
        pytest.param(("a", ""), 1, "class_1", id="empty-name"),
        pytest.param(("a", "b"), -1, "class_-1", id="negative"),
    ],
)
def test_label_of(names: tuple[str, ...], class_id: int, label: str) -> None:
    assert label_of(names, class_id) == label


def detections(count: int, dtype: Any = np.int32) -> Detections:
    boxes = np.arange(4 * count, dtype=np.float32).reshape(count, 4) + np.float32(0.1)
    scores = np.linspace(0.9, 0.1, count, dtype=np.float32)
    return Detections(boxes, scores, np.arange(count, dtype=dtype), ("Füße 足", "b", 'c"')[:count], (0.25,) * count)


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_b75_json_comes_back_as_it_went(count: int, dtype: Any) -> None:
    found = detections(count, dtype)
    payload = found.to_json()
    back = Detections.from_json(payload)
    np.testing.assert_array_equal(back.boxes, found.boxes)
    np.testing.assert_array_equal(back.scores, found.scores)
    np.testing.assert_array_equal(back.class_ids, found.class_ids)
    assert (back.labels, back.thresholds) == (found.labels, found.thresholds)
    assert json.loads(payload) == (found.to_records() if count else [NO_OBJECTS])


def test_b74_json_is_strict() -> None:
    broken = Detections(
        np.array([[np.nan, 0, 1, 1]], np.float32), np.ones(1, np.float32), np.zeros(1, np.int32), ("a",), (0.5,)
    )
    with pytest.raises(ValueError, match="not JSON compliant"):
        broken.to_json()


@pytest.mark.parametrize("compare", ["greater_equal", "greater"])
@pytest.mark.parametrize("threshold", [0.0, 0.1, 0.25, 0.3, 0.5, 0.7])
def test_a_score_equal_to_the_threshold(threshold: float, compare: str) -> None:
    rules = ClassRules({"score_threshold": threshold, "compare": compare}, (), 1)
    at = np.float32(threshold)
    scores = np.array([np.nextafter(at, np.float32(-1)), at, np.nextafter(at, np.float32(2)), np.nan], np.float32)
    expected = [False, compare == "greater_equal", True, False]
    assert rules.passes(scores, np.zeros(4, np.int64)).tolist() == expected


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        pytest.param({"classes": ["cow"]}, "'cow'", id="unknown-name"),
        pytest.param({"classes": [2]}, "2", id="id-past-the-last"),
        pytest.param({"classes": [-1]}, "-1", id="negative-id"),
        pytest.param({"class_thresholds": {"cow": 0.5}}, "'cow'", id="threshold-of-an-unknown-name"),
    ],
)
def test_rules_about_other_classes_are_refused(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(DecodeError, match=f"one of the model's 2 classes, got {named}"):
        ClassRules({"score_threshold": 0.5, **settings}, ("dog", "cat"), 2)


def test_an_empty_class_list_keeps_nothing() -> None:
    rules = ClassRules({"score_threshold": 0.5, "classes": []}, (), 2)
    assert not rules.passes(np.ones(2, np.float32), np.arange(2)).any()


def test_plausible() -> None:
    boxes = np.array(
        [[0, 0, 1, 1], [np.nan, 0, 1, 1], [0, np.inf, 1, 1], [0, 0, -np.inf, 1], [0, 0, 1, 2e9]], np.float32
    )
    assert plausible(boxes).tolist() == [True, False, False, False, False]


@pytest.mark.parametrize(
    ("tensor", "known"),
    [
        pytest.param("boxes", "it has dets, #1", id="unknown-name"),
        pytest.param(2, "no output number 2; it has dets, #1", id="past-the-last"),
        pytest.param(-1, "no output number -1", id="negative"),
    ],
)
def test_an_output_that_the_graph_lacks_is_a_decode_error(tensor: object, known: str) -> None:
    config = DecoderConfig({}, output_names=("dets", ""), outputs={"boxes": {"tensor": tensor}})
    with pytest.raises(DecodeError, match=f"outputs.boxes: .*{known}"):
        config.adapter()


def test_make_decoder() -> None:
    from postprocessors.yolo.support import DEFAULTS

    decode = make_decoder("yolo", DecoderConfig({**DEFAULTS, "num_classes": 2}))
    assert len(decode([np.zeros((1, 6, 4), np.float32)], [FrameGeometry((9, 9), (9, 9), (9, 9))])) == 1
