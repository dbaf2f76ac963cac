"""RF-DETR outputs whose right answer was worked out by hand; the ids name the field's known faults."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from postprocessors.contract import DecodeError
from postprocessors.geometry import FrameGeometry
from postprocessors.rf_detr.tests.queries import BOX, BOX_PIXELS, FULL_HD, boxes_of, decoder, logits_of, plain

TWO = 0.8808  # sigmoid(2)


def found_ids(logits: np.ndarray, **settings: Any) -> list[int]:
    boxes = boxes_of(logits.shape[1], BOX)
    return decoder(**settings)([boxes, logits], [FULL_HD])[0].class_ids.tolist()


@pytest.mark.parametrize("logits_first", [False, True])
@pytest.mark.parametrize(
    ("columns", "names"),
    [
        pytest.param(91, ("", ""), id="B35-by-last-axis"),
        pytest.param(4, ("dets", "labels"), id="B36ab-by-name"),
        pytest.param(4, ("pred_boxes", "pred_logits"), id="B36ab-by-other-names"),
    ],
)
def test_which_output_is_which(columns: int, names: tuple[str, str], logits_first: bool) -> None:
    pair = [boxes_of(300, BOX), logits_of(300, columns, {(0, 2): 2.0})]
    if logits_first:
        pair, names = pair[::-1], names[::-1]
    assert plain(decoder(names, num_classes=columns - 1)(pair, [FULL_HD])[0]) == [(2, TWO, BOX_PIXELS)]


@pytest.mark.parametrize("logits_first", [False, True])
@pytest.mark.parametrize(
    "box", [pytest.param(BOX, id="B36c-inside"), pytest.param((0.5, 1.02, 0.25, 0.5), id="unbounded-boxes")]
)
def test_nameless_outputs_are_told_by_their_values(box: tuple[float, ...], logits_first: bool) -> None:
    pair = [boxes_of(300, box), logits_of(300, 4, {(0, 2): 2.0})]
    found = decoder(("", ""), num_classes=3)(pair[::-1] if logits_first else pair, [FULL_HD])[0]
    assert plain(found)[0][:2] == (2, TWO)


def test_a_name_says_more_than_a_value() -> None:
    boxes, logits = boxes_of(2, BOX), np.full((1, 2, 4), 0.75, np.float32)
    found = decoder(("labels", "dets"), num_classes=3)([logits, boxes], [FULL_HD])[0]
    assert plain(found)[0] == (0, 0.6792, BOX_PIXELS)


def test_the_last_axis_says_more_than_a_value() -> None:
    boxes, logits = boxes_of(2, BOX), np.full((1, 2, 9), 0.75, np.float32)
    found = decoder(("", ""), num_classes=8)([logits, boxes], [FULL_HD])[0]
    assert plain(found)[0] == (0, 0.6792, BOX_PIXELS)


def test_nameless_outputs_that_look_alike_are_taken_in_the_exporters_order() -> None:
    boxes, logits = boxes_of(2, BOX), np.full((1, 2, 4), 0.75, np.float32)
    found = decoder(("", ""), num_classes=3)([boxes, logits], [FULL_HD])[0]
    assert found.scores[0] == pytest.approx(1 / (1 + math.exp(-0.75)))


@pytest.mark.parametrize(
    ("column", "settings", "expected"),
    [
        pytest.param(1, {}, [1], id="B37a-sparse-coco-id"),
        pytest.param(90, {}, [90], id="B37b-B40-last-column-is-a-class"),
        pytest.param(0, {}, [0], id="B37c-B39-first-column-is-a-class"),
        pytest.param(90, {"background_class": 90}, [], id="B37-background-last"),
        pytest.param(90, {"background_class": -1}, [], id="B37-background-minus-one"),
        pytest.param(0, {"background_class": 0}, [], id="B37-background-first"),
        pytest.param(1, {"background_class": 0}, [1], id="B37-ids-stay-column-ids"),
    ],
)
def test_column_is_class_id(column: int, settings: dict[str, Any], expected: list[int]) -> None:
    logits = logits_of(300, 91, {(0, column): 2.0})
    assert found_ids(logits, num_classes=90, **settings) == expected


@pytest.mark.parametrize(
    ("column", "names", "background", "label"),
    [
        pytest.param(90, 90, None, "class_90", id="B37-no-name-left"),
        pytest.param(90, 91, None, "name 90", id="B37-a-name-per-column"),
        pytest.param(0, 91, None, "name 0", id="B39-no-shift"),
        pytest.param(1, 90, 0, "name 0", id="B37-names-of-the-foreground-only"),
        pytest.param(1, 91, 0, "name 1", id="B37-background-has-a-name"),
    ],
)
def test_labels(column: int, names: int, background: int | None, label: str) -> None:
    decode = decoder(class_names=[f"name {i}" for i in range(names)], num_classes=90, background_class=background)
    found = decode([boxes_of(300, BOX), logits_of(300, 91, {(0, column): 2.0})], [FULL_HD])[0]
    assert found.labels == (label,)


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        pytest.param([boxes_of(300), logits_of(300, 91, {})], "expected 8 or 9 class columns", id="B41-noise-columns"),
        pytest.param([boxes_of(300)], r"got \[1, 300, 4\]", id="one-output"),
        pytest.param([], "got none", id="no-output"),
        pytest.param([boxes_of(300)[0], logits_of(300, 8, {})[0]], r"got \[300, 4\], \[300, 8\]", id="no-batch-axis"),
        pytest.param([boxes_of(300), logits_of(299, 8, {})], "boxes .* and logits", id="query-counts-differ"),
        pytest.param([np.zeros((1, 300, 5)), logits_of(300, 8, {})], "boxes .* and logits", id="no-boxes"),
        pytest.param([boxes_of(300), np.zeros((1, 300, 0))], "expected 8 or 9 class columns", id="no-columns"),
    ],
)
def test_shapes_that_are_refused(outputs: list[np.ndarray], expected: str) -> None:
    with pytest.raises(DecodeError, match=expected) as caught:
        decoder(num_classes=8)(outputs, [FULL_HD])
    assert "\n" not in str(caught.value)


def test_fewer_images_than_frames_is_refused() -> None:
    with pytest.raises(DecodeError, match="expected 2 images"):
        decoder()([boxes_of(3), logits_of(3, 8, {})], [FULL_HD, FULL_HD])


def test_background_outside_the_columns_is_refused() -> None:
    with pytest.raises(DecodeError, match="background_class within 4 class columns, got 7"):
        found_ids(logits_of(3, 4, {}), background_class=7)


@pytest.mark.parametrize("background", [None, 0])
def test_a_head_without_classes_is_refused(background: int | None) -> None:
    columns = 0 if background is None else 1
    with pytest.raises(DecodeError, match="class columns"):
        found_ids(logits_of(3, columns, {}), background_class=background)


def test_named_outputs_win() -> None:
    outputs = {"boxes": {"tensor": "b"}, "logits": {"tensor": 0}}
    decode = decoder(("a", "b", "c"), outputs=outputs, num_classes=3)
    raw = [logits_of(5, 3, {(0, 1): 2.0}), boxes_of(5, BOX), boxes_of(5)]
    assert plain(decode(raw, [FULL_HD])[0]) == [(1, TWO, BOX_PIXELS)]


@pytest.mark.parametrize("meaning", ["boxes", "logits"])
def test_one_named_output_is_not_enough(meaning: str) -> None:
    with pytest.raises(DecodeError, match="outputs: expected both boxes and logits"):
        decoder(outputs={meaning: {"tensor": 0}})


@pytest.mark.parametrize(("threshold", "kept"), [(0.9, []), (0.5, [0.8176])])
def test_b15_logits_are_not_scores(threshold: float, kept: list[float]) -> None:
    decode = decoder(score_threshold=threshold)
    found = decode([boxes_of(2, BOX), logits_of(2, 3, {(0, 1): 1.5})], [FULL_HD])[0]
    assert [round(float(score), 4) for score in found.scores] == kept


@pytest.mark.parametrize(("threshold", "kept"), [(0.5, []), (0.04, [0.1142, 0.042])])
def test_b17_softmax_counts_the_background_in(threshold: float, kept: list[float]) -> None:
    decode = decoder(use_softmax=True, background_class=-1, score_threshold=threshold)
    logits = np.array([[[2, 1, 4]]], np.float32)
    found = decode([boxes_of(1, BOX), logits], [FULL_HD])[0]
    assert [round(float(score), 4) for score in found.scores] == kept


@pytest.mark.parametrize(
    ("row", "settings", "expected"),
    [
        pytest.param([-1000, 1000], {}, [(1, 1.0)], id="B18-sigmoid"),
        pytest.param([-65504, 65504], {}, [(1, 1.0)], id="B18-sigmoid-half-limits"),
        pytest.param([3e38, -3e38], {}, [(0, 1.0)], id="B18-sigmoid-float-limits"),
        pytest.param([1000, 0, 0], {"use_softmax": True}, [(0, 1.0)], id="B18-softmax"),
        pytest.param([3e38, -3e38, 0], {"use_softmax": True}, [(0, 1.0)], id="B18-softmax-float-limits"),
        pytest.param([np.nan, 2.0], {}, [(1, TWO)], id="B72-nan-beside-a-logit"),
        pytest.param([np.nan, 2.0], {"use_softmax": True}, [(1, 1.0)], id="B72-nan-beside-a-logit-softmax"),
        pytest.param([np.nan, np.nan], {}, [], id="B72-all-nan"),
        pytest.param([np.nan, np.nan], {"use_softmax": True, "score_threshold": 0.1}, [], id="B72-all-nan-softmax"),
        pytest.param([-np.inf, -np.inf], {"use_softmax": True, "score_threshold": 0.1}, [], id="all-minus-infinity"),
    ],
)
def test_numbers_at_their_limits(row: list[float], settings: dict[str, Any], expected: list[Any]) -> None:
    logits = np.array([[row]], np.float32)
    found = decoder(**settings)([boxes_of(1, BOX), logits], [FULL_HD])[0]
    assert [entry[:2] for entry in plain(found)] == expected


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
def test_b72_bad_boxes_are_dropped(bad: float) -> None:
    boxes = boxes_of(2, (0.5, bad, 0.5, bad), BOX)
    found = decoder()([boxes, logits_of(2, 3, {(0, 0): 4.0, (1, 1): 2.0})], [FULL_HD])[0]
    assert plain(found) == [(1, TWO, BOX_PIXELS)]
    json.loads(found.to_json(), parse_constant=pytest.fail)


def test_b42_one_query_may_give_two_classes() -> None:
    logits = np.array([[[2.0, 1.5, -2], [-3, -3, -3]]], np.float32)
    found = decoder()([boxes_of(2, BOX), logits], [FULL_HD])[0]
    assert plain(found) == [(0, 0.8808, BOX_PIXELS), (1, 0.8176, BOX_PIXELS)]


def test_b44_background_takes_no_place_in_top_k() -> None:
    logits = np.tile(np.array([1.0, 5.0], np.float32), (1, 10, 1))
    found = decoder(background_class=1, top_k=10)([boxes_of(10), logits], [FULL_HD])[0]
    assert found.class_ids.tolist() == [0] * 10
    assert found.scores[0] == pytest.approx(0.7311, abs=1e-4)


def test_b50_one_class_head() -> None:
    assert found_ids(logits_of(300, 1, {(0, 0): 2.0}), num_classes=1) == [0]


@pytest.mark.parametrize(
    ("frame", "box", "expected"),
    [
        pytest.param(FULL_HD, (0.5, 0.5, 1, 1), [0, 0, 1920, 1080], id="whole-image"),
        pytest.param(FULL_HD, (0, 0, 0.5, 0.5), [0, 0, 480, 270], id="clipped"),
        pytest.param(
            FrameGeometry((720, 1280), (216, 384), (384, 384), (84, 0)),
            (0.5, 0.5, 1, 216 / 384),
            [0, 0, 1280, 720],
            id="B52-letterbox",
        ),
    ],
)
def test_boxes_come_back_to_the_source(frame: FrameGeometry, box: tuple[float, ...], expected: list[float]) -> None:
    found = decoder()([boxes_of(1, box), logits_of(1, 2, {(0, 0): 2.0})], [frame])[0]
    assert found.boxes[0].tolist() == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        pytest.param({"top_k": 2}, [3, 2], id="top-k"),
        pytest.param({"max_det": 1}, [3], id="max-det"),
        pytest.param({"classes": [1]}, [2], id="classes"),
        pytest.param({"top_k": 1, "classes": [1]}, [], id="top-k-comes-before-classes"),
        pytest.param({"class_thresholds": {"class_0": 0.9}}, [3, 2], id="own-threshold"),
        pytest.param({"score_threshold": 0.5, "compare": "greater"}, [3, 2, 1], id="vendors-greater"),
        pytest.param({"score_threshold": 0.5}, [3, 2, 1, 0], id="threshold-itself-counts"),
    ],
)
def test_selection(settings: dict[str, Any], kept: list[int]) -> None:
    # Logits 3, 2, 1 and 0 (score 0.5) of classes 0, 1, 0 and 0.
    logits = logits_of(4, 2, {(0, 0): 3.0, (1, 1): 2.0, (2, 0): 1.0, (3, 0): 0.0})
    found = decoder(**settings)([boxes_of(4), logits], [FULL_HD])[0]
    assert [round(math.log(float(s) / (1 - float(s)))) for s in found.scores] == kept


def test_ties_go_to_the_lower_index() -> None:
    logits = logits_of(3, 3, {(0, 2): 2.0, (0, 1): 2.0, (2, 0): 2.0})
    assert found_ids(logits, top_k=2) == [1, 2]


def test_a_tie_for_the_last_place_is_decided_before_classes_are() -> None:
    assert found_ids(logits_of(1, 2, {(0, 0): 2.0, (0, 1): 2.0}), top_k=1, classes=[1]) == []


def test_one_result_per_image() -> None:
    boxes = np.concatenate([boxes_of(2, BOX)] * 2)
    logits = np.concatenate([logits_of(2, 3, {}), logits_of(2, 3, {(0, 1): 2.0})])
    small = FrameGeometry((108, 192), (384, 384), (384, 384))
    first, second = decoder()([boxes, logits], [FULL_HD, small])
    assert len(first) == 0
    assert plain(second) == [(1, TWO, [72.0, 27.0, 120.0, 81.0])]
