"""The field's known faults with DETR exports; a test's name begins with the case's number."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from postprocessors.contract import DecodeError
from postprocessors.detr.tests.heads import (
    BOX,
    BOX_PIXELS,
    FULL_HD,
    TWO,
    boxes_of,
    decoder,
    logits_of,
    plain,
    rows_of,
)
from postprocessors.geometry import FrameGeometry


@pytest.mark.parametrize(("threshold", "kept"), [(0.9, []), (0.5, [0.8176])])
def test_b15_logits_are_not_scores(threshold: float, kept: list[float]) -> None:
    decode = decoder(score_threshold=threshold)
    found = decode([logits_of(2, 3, {(0, 1): 1.5}), boxes_of(2, BOX)], [FULL_HD])[0]
    assert [round(float(score), 4) for score in found.scores] == kept


@pytest.mark.parametrize("background", [2, -1, None])
@pytest.mark.parametrize(("threshold", "kept"), [(0.5, []), (0.04, [0.1142])])
def test_b17_softmax_counts_the_background_in(background: int | None, threshold: float, kept: list[float]) -> None:
    decode = decoder(use_softmax=True, background_class=background, score_threshold=threshold)
    found = decode([np.array([[[2, 1, 4]]], np.float32), boxes_of(1, BOX)], [FULL_HD])[0]
    assert [round(float(score), 4) for score in found.scores] == kept


@pytest.mark.parametrize(
    ("row", "settings", "expected"),
    [
        pytest.param([-1000, 1000], {}, [(1, 1.0)], id="sigmoid"),
        pytest.param([3e38, -3e38], {}, [(0, 1.0)], id="sigmoid-float-limits"),
        pytest.param([1000, 0, 0], {"use_softmax": True}, [(0, 1.0)], id="softmax"),
        pytest.param([3e38, -3e38, 0], {"use_softmax": True}, [(0, 1.0)], id="softmax-float-limits"),
    ],
)
def test_b18_large_logits(row: list[float], settings: dict[str, Any], expected: list[Any]) -> None:
    found = decoder(**settings)([np.array([[row]], np.float32), boxes_of(1, BOX)], [FULL_HD])[0]
    assert [entry[:2] for entry in plain(found)] == expected


def test_b24_rows_are_fractions_of_the_image() -> None:
    found = decoder(("output0",), num_classes=80)([rows_of((*BOX, 0.9, 7))], [FULL_HD])[0]
    assert plain(found) == [(7, 0.9, BOX_PIXELS)]


def test_b29_boxes_for_the_networks_own_size_are_not_scaled_twice() -> None:
    # What orig_target_sizes [[640, 640]], made a constant of the graph, leaves: pixels of the network's input.
    labels, scores = np.array([[7, 0]], np.float32), np.array([[0.9, 0.1]], np.float32)
    boxes = np.array([[[240, 160, 400, 480], [0, 0, 9, 9]]], np.float32)
    decode = decoder(("labels", "boxes", "scores"), num_classes=80)
    assert plain(decode([labels, boxes, scores], [FULL_HD])[0]) == [(7, 0.9, BOX_PIXELS)]


@pytest.mark.parametrize("logits_first", [False, True])
def test_b35_outputs_in_either_order(logits_first: bool) -> None:
    pair = [boxes_of(300, BOX), logits_of(300, 91, {(0, 2): 2.0})]
    found = decoder(("", ""), num_classes=91)(pair[::-1] if logits_first else pair, [FULL_HD])[0]
    assert plain(found) == [(2, TWO, BOX_PIXELS)]


@pytest.mark.parametrize(
    ("names", "logits_first"),
    [
        pytest.param(("pred_boxes", "logits"), False, id="a"),
        pytest.param(("logits", "pred_boxes"), True, id="b"),
        pytest.param(("", ""), False, id="c"),
        pytest.param(("", ""), True, id="c-by-values"),
    ],
)
def test_b36_logits_as_wide_as_boxes(names: tuple[str, str], logits_first: bool) -> None:
    pair = [boxes_of(300, BOX), logits_of(300, 4, {(0, 2): 2.0})]
    found = decoder(names, num_classes=4)(pair[::-1] if logits_first else pair, [FULL_HD])[0]
    assert plain(found) == [(2, TWO, BOX_PIXELS)]


@pytest.mark.parametrize(
    ("column", "background", "expected"),
    [
        pytest.param(1, None, [(1, "class 1")], id="a"),
        pytest.param(90, None, [(90, "class_90")], id="b"),
        pytest.param(0, None, [(0, "class 0")], id="c"),
        pytest.param(90, -1, [], id="background-minus-one"),
        pytest.param(0, 0, [], id="background-first"),
        pytest.param(1, 0, [(1, "class 0")], id="ids-stay-column-ids"),
    ],
)
def test_b37_column_is_class_id(column: int, background: int | None, expected: list[tuple[int, str]]) -> None:
    names = [f"class {index}" for index in range(90)]
    decode = decoder(class_names=names, num_classes=90, background_class=background)
    found = decode([logits_of(300, 91, {(0, column): 2.0}), boxes_of(300, BOX)], [FULL_HD])[0]
    assert list(zip(found.class_ids.tolist(), found.labels)) == expected


def test_b39_no_implicit_shift() -> None:
    decode = decoder(class_names=["a", "b", "c", "d"], num_classes=4)
    found = decode([logits_of(300, 5, {(0, 0): 2.0}), boxes_of(300, BOX)], [FULL_HD])[0]
    assert (found.class_ids.tolist(), found.labels) == ([0], ("a",))


def test_b40_last_column_is_a_class() -> None:
    found = decoder(num_classes=90)([logits_of(300, 91, {(0, 90): 2.0}), boxes_of(300, BOX)], [FULL_HD])[0]
    assert found.class_ids.tolist() == [90]


def test_b41_a_head_of_other_classes_is_refused() -> None:
    with pytest.raises(DecodeError, match="expected 8 or 9 class columns for num_classes=8, got 91"):
        decoder(num_classes=8)([logits_of(300, 91, {}), boxes_of(300)], [FULL_HD])


def test_b42_one_query_may_give_two_classes() -> None:
    logits = np.array([[[2.0, 1.5, -2], [-3, -3, -3]]], np.float32)
    found = decoder(score_threshold=0.5, top_k=300)([logits, boxes_of(2, BOX)], [FULL_HD])[0]
    assert plain(found) == [(0, 0.8808, BOX_PIXELS), (1, 0.8176, BOX_PIXELS)]


def test_b44_background_takes_no_place_in_top_k() -> None:
    logits = np.tile(np.array([1.0, 5.0], np.float32), (1, 10, 1))
    found = decoder(background_class=1, top_k=10, score_threshold=0.5)([logits, boxes_of(10)], [FULL_HD])[0]
    assert found.class_ids.tolist() == [0] * 10
    assert found.scores[0] == pytest.approx(0.7311, abs=1e-4)


@pytest.mark.parametrize(
    "outputs",
    [
        pytest.param([logits_of(300, 1, {(0, 0): 2.0}), boxes_of(300, BOX)], id="b-pair"),
        pytest.param([logits_of(1, 1, {(0, 0): 2.0}), boxes_of(1, BOX)], id="one-query"),
        pytest.param([rows_of((*BOX, TWO, 0))], id="rows"),
        pytest.param([np.array([[[*BOX, TWO]]], np.float32)], id="one-class-one-query"),
    ],
)
def test_b50_one_of_everything(outputs: list[np.ndarray]) -> None:
    found = decoder(("",) * len(outputs), num_classes=1)(outputs, [FULL_HD])[0]
    assert plain(found) == [(0, TWO, BOX_PIXELS)]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
def test_b72_bad_boxes_are_dropped(bad: float) -> None:
    box = (0.5, bad, 0.5, bad)
    pair = [logits_of(2, 3, {(0, 0): 4.0, (1, 1): 2.0}), boxes_of(2, box, BOX)]
    rows = [rows_of((*box, 0.95, 0), (*BOX, 0.8808, 1))]
    for outputs in (pair, rows):
        found = decoder(("", ""), num_classes=3)(outputs, [FULL_HD])[0]
        assert plain(found) == [(1, TWO, BOX_PIXELS)]
        json.loads(found.to_json(), parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("row", "settings", "expected"),
    [
        pytest.param([np.nan, 2.0], {}, [(1, TWO)], id="nan-beside-a-logit"),
        pytest.param([np.nan, 2.0], {"multi_label": False}, [(1, TWO)], id="best-class"),
        pytest.param([np.nan, 2.0, np.nan], {"use_softmax": True}, [(1, 1.0)], id="softmax"),
        pytest.param([np.nan, np.nan], {"score_threshold": 0}, [], id="all-nan"),
        pytest.param([np.inf, 2.0], {}, [(0, 1.0), (1, TWO)], id="infinite-logit"),
    ],
)
def test_b72_nan_scores(row: list[float], settings: dict[str, Any], expected: list[Any]) -> None:
    found = decoder(**settings)([np.array([[row]], np.float32), boxes_of(1, BOX)], [FULL_HD])[0]
    assert [entry[:2] for entry in plain(found)] == expected


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_b72_bad_probabilities_and_classes(bad: float) -> None:
    head = rows_of((*BOX, bad, 1), (*BOX, 0.9, bad), (*BOX, 0.8, 1))
    assert [entry[:2] for entry in plain(decoder(num_classes=3)([head], [FULL_HD])[0])] == [(1, 0.8)]
    scores = np.array([[[*BOX, bad, 0.9], [*BOX, bad, bad]]], np.float32)
    decode = decoder(num_classes=2, end_to_end=False)
    assert [entry[:2] for entry in plain(decode([scores], [FULL_HD])[0])] == [(1, 0.9)]


def test_b79_one_result_per_image() -> None:
    small = FrameGeometry((108, 192), (640, 640), (640, 640))
    boxes = np.concatenate([boxes_of(2, BOX)] * 2)
    logits = np.concatenate([logits_of(2, 3, {}), logits_of(2, 3, {(0, 1): 2.0})])
    rows = np.concatenate([rows_of(), rows_of((*BOX, 0.8808, 1))])
    for outputs in ([logits, boxes], [rows]):
        first, second = decoder(("", ""), num_classes=3)(outputs, [FULL_HD, small])
        assert len(first) == 0
        assert plain(second) == [(1, TWO, [72.0, 27.0, 120.0, 81.0])]
