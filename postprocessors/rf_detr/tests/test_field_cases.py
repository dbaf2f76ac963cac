"""The field's known faults with RF-DETR exports; a test's name begins with the case's number."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from postprocessors.contract import DecodeError
from postprocessors.geometry import FrameGeometry
from postprocessors.rf_detr.tests.queries import BOX, BOX_PIXELS, FULL_HD, TWO, boxes_of, decoder, logits_of, plain


def found_ids(logits: np.ndarray, **settings: Any) -> list[int]:
    boxes = boxes_of(logits.shape[1], BOX)
    return decoder(**settings)([boxes, logits], [FULL_HD])[0].class_ids.tolist()


@pytest.mark.parametrize(("threshold", "kept"), [(0.9, []), (0.5, [0.8176])])
def test_b15_logits_are_not_scores(threshold: float, kept: list[float]) -> None:
    decode = decoder(score_threshold=threshold)
    found = decode([boxes_of(2, BOX), logits_of(2, 3, {(0, 1): 1.5})], [FULL_HD])[0]
    assert [round(float(score), 4) for score in found.scores] == kept


@pytest.mark.parametrize(("threshold", "kept"), [(0.5, []), (0.04, [0.1142, 0.042])])
def test_b17_softmax_counts_the_background_in(threshold: float, kept: list[float]) -> None:
    decode = decoder(use_softmax=True, background_class=2, score_threshold=threshold)
    logits = np.array([[[2, 1, 4]]], np.float32)
    found = decode([boxes_of(1, BOX), logits], [FULL_HD])[0]
    assert [round(float(score), 4) for score in found.scores] == kept


@pytest.mark.parametrize(
    ("row", "settings", "expected"),
    [
        pytest.param([-1000, 1000], {}, [(1, 1.0)], id="sigmoid"),
        pytest.param(np.array([-65504, 65504], np.float16), {}, [(1, 1.0)], id="sigmoid-half-limits"),
        pytest.param([3e38, -3e38], {}, [(0, 1.0)], id="sigmoid-float-limits"),
        pytest.param([1000, 0, 0], {"use_softmax": True}, [(0, 1.0)], id="softmax"),
        pytest.param([3e38, -3e38, 0], {"use_softmax": True}, [(0, 1.0)], id="softmax-float-limits"),
    ],
)
def test_b18_large_logits(row: Any, settings: dict[str, Any], expected: list[Any]) -> None:
    logits = np.asarray(row, getattr(row, "dtype", np.float32))[None, None]
    found = decoder(**settings)([boxes_of(1, BOX), logits], [FULL_HD])[0]
    assert [entry[:2] for entry in plain(found)] == expected


def test_b24_one_output_of_rt_detr_is_refused_and_layout_detr_named() -> None:
    rows = np.zeros((1, 300, 6), np.float32)
    rows[0, 0] = (*BOX, 0.9, 7)
    with pytest.raises(DecodeError, match=r"boxes .* and logits .*got \[1, 300, 6\]; .* layout detr"):
        decoder(num_classes=80)([rows], [FULL_HD])


@pytest.mark.parametrize("logits_first", [False, True])
def test_b35_outputs_in_either_order(logits_first: bool) -> None:
    pair = [boxes_of(300, BOX), logits_of(300, 91, {(0, 2): 2.0})]
    found = decoder(("", ""), num_classes=90)(pair[::-1] if logits_first else pair, [FULL_HD])[0]
    assert plain(found) == [(2, TWO, BOX_PIXELS)]


@pytest.mark.parametrize(
    ("names", "logits_first"),
    [
        pytest.param(("dets", "labels"), False, id="a"),
        pytest.param(("labels", "dets"), True, id="b"),
        pytest.param(("pred_logits", "pred_boxes"), True, id="b-other-names"),
        pytest.param(("", ""), False, id="c"),
        pytest.param(("", ""), True, id="c-by-values"),
    ],
)
@pytest.mark.parametrize("classes", [3, 4])
def test_b36_logits_as_wide_as_boxes(names: tuple[str, str], logits_first: bool, classes: int) -> None:
    pair = [boxes_of(300, BOX), logits_of(300, 4, {(0, 2): 2.0})]
    found = decoder(names, num_classes=classes)(pair[::-1] if logits_first else pair, [FULL_HD])[0]
    assert plain(found) == [(2, TWO, BOX_PIXELS)]


@pytest.mark.parametrize("logits_first", [False, True])
def test_b36_values_tell_although_a_box_reaches_beyond_the_image(logits_first: bool) -> None:
    pair = [boxes_of(300, (0.5, 1.02, 0.25, 0.5)), logits_of(300, 4, {(0, 2): 2.0})]
    found = decoder(("", ""), num_classes=3)(pair[::-1] if logits_first else pair, [FULL_HD])[0]
    assert plain(found)[0][:2] == (2, TWO)


@pytest.mark.parametrize(
    ("column", "settings", "expected"),
    [
        pytest.param(1, {}, [1], id="a"),
        pytest.param(90, {}, [90], id="b"),
        pytest.param(0, {}, [0], id="c"),
        pytest.param(90, {"background_class": 90}, [], id="background-last"),
        pytest.param(90, {"background_class": -1}, [], id="background-minus-one"),
        pytest.param(0, {"background_class": 0}, [], id="background-first"),
        pytest.param(1, {"background_class": 0}, [1], id="ids-stay-column-ids"),
    ],
)
def test_b37_column_is_class_id(column: int, settings: dict[str, Any], expected: list[int]) -> None:
    assert found_ids(logits_of(300, 91, {(0, column): 2.0}), num_classes=90, **settings) == expected


@pytest.mark.parametrize(
    ("column", "names", "background", "label"),
    [
        pytest.param(90, 90, None, "class_90", id="no-name-left"),
        pytest.param(90, 91, None, "name 90", id="a-name-per-column"),
        pytest.param(0, 91, None, "name 0", id="no-shift"),
        pytest.param(1, 90, 0, "name 0", id="names-of-the-foreground-only"),
        pytest.param(1, 91, 0, "name 1", id="background-has-a-name"),
    ],
)
def test_b37_labels(column: int, names: int, background: int | None, label: str) -> None:
    decode = decoder(class_names=[f"name {i}" for i in range(names)], num_classes=90, background_class=background)
    found = decode([boxes_of(300, BOX), logits_of(300, 91, {(0, column): 2.0})], [FULL_HD])[0]
    assert found.labels == (label,)


def test_b39_no_implicit_shift() -> None:
    decode = decoder(class_names=["a", "b", "c", "d"], num_classes=4)
    found = decode([boxes_of(300, BOX), logits_of(300, 5, {(0, 0): 2.0})], [FULL_HD])[0]
    assert (found.class_ids.tolist(), found.labels) == ([0], ("a",))


def test_b40_last_column_is_a_class() -> None:
    assert found_ids(logits_of(300, 91, {(0, 90): 2.0}), num_classes=90) == [90]


def test_b41_a_head_of_other_classes_is_refused() -> None:
    with pytest.raises(DecodeError, match="expected 8 or 9 class columns for num_classes=8, got 91"):
        found_ids(logits_of(300, 91, {(0, 2): 2.0}), num_classes=8)


def test_b42_one_query_may_give_two_classes() -> None:
    logits = np.array([[[2.0, 1.5, -2], [-3, -3, -3]]], np.float32)
    found = decoder(score_threshold=0.5, top_k=300)([boxes_of(2, BOX), logits], [FULL_HD])[0]
    assert plain(found) == [(0, 0.8808, BOX_PIXELS), (1, 0.8176, BOX_PIXELS)]


def test_b44_background_takes_no_place_in_top_k() -> None:
    logits = np.tile(np.array([1.0, 5.0], np.float32), (1, 10, 1))
    found = decoder(background_class=1, top_k=10, score_threshold=0.5)([boxes_of(10), logits], [FULL_HD])[0]
    assert found.class_ids.tolist() == [0] * 10
    assert found.scores[0] == pytest.approx(0.7311, abs=1e-4)


def test_b50_one_class_head() -> None:
    assert found_ids(logits_of(300, 1, {(0, 0): 2.0}), num_classes=1) == [0]


@pytest.mark.parametrize(
    ("row", "settings", "expected"),
    [
        pytest.param([np.nan, 2.0], {}, [(1, TWO)], id="nan-beside-a-logit"),
        pytest.param([np.nan, 2.0], {"use_softmax": True}, [(1, 1.0)], id="nan-beside-a-logit-softmax"),
        pytest.param([np.nan, np.nan], {}, [], id="all-nan"),
        pytest.param([np.nan, np.nan], {"use_softmax": True, "score_threshold": 0.1}, [], id="all-nan-softmax"),
        pytest.param([-np.inf, -np.inf], {"use_softmax": True, "score_threshold": 0.1}, [], id="all-minus-infinity"),
    ],
)
def test_b72_nan_logits(row: list[float], settings: dict[str, Any], expected: list[Any]) -> None:
    found = decoder(**settings)([boxes_of(1, BOX), np.array([[row]], np.float32)], [FULL_HD])[0]
    assert [entry[:2] for entry in plain(found)] == expected


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
def test_b72_bad_boxes_are_dropped(bad: float) -> None:
    boxes = boxes_of(2, (0.5, bad, 0.5, bad), BOX)
    found = decoder()([boxes, logits_of(2, 3, {(0, 0): 4.0, (1, 1): 2.0})], [FULL_HD])[0]
    assert plain(found) == [(1, TWO, BOX_PIXELS)]
    json.loads(found.to_json(), parse_constant=pytest.fail)


def test_b79_one_result_per_image() -> None:
    boxes = np.concatenate([boxes_of(2, BOX)] * 2)
    logits = np.concatenate([logits_of(2, 3, {}), logits_of(2, 3, {(0, 1): 2.0})])
    small = FrameGeometry((108, 192), (384, 384), (384, 384))
    first, second = decoder()([boxes, logits], [FULL_HD, small])
    assert len(first) == 0
    assert plain(second) == [(1, TWO, [72.0, 27.0, 120.0, 81.0])]
