"""Scores, selection, boxes: DETR outputs whose right answer was worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from postprocessors.contract import DecodeError, DecodeValueError
from postprocessors.detr.tests.heads import BOX, BOX_PIXELS, FULL_HD, boxes_of, decoder, logits_of, plain, rows_of
from postprocessors.geometry import FrameGeometry


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        pytest.param({"top_k": 2}, [3, 2], id="top-k"),
        pytest.param({"top_k": None}, [3, 2, 1, 0], id="as-many-as-queries"),
        pytest.param({"max_det": 1}, [3], id="max-det"),
        pytest.param({"classes": [1]}, [2], id="classes"),
        pytest.param({"top_k": 1, "classes": [1]}, [], id="top-k-comes-before-classes"),
        pytest.param({"class_thresholds": {"class_0": 0.9}}, [3, 2], id="own-threshold"),
        pytest.param({"compare": "greater"}, [3, 2, 1], id="vendors-greater"),
        pytest.param({}, [3, 2, 1, 0], id="threshold-itself-counts"),
    ],
)
@pytest.mark.parametrize("multi_label", [True, False])
def test_selection(settings: dict[str, Any], kept: list[int], multi_label: bool) -> None:
    # Logits 3, 2, 1 and 0 (score 0.5) of classes 0, 1, 0 and 0.
    logits = logits_of(4, 2, {(0, 0): 3.0, (1, 1): 2.0, (2, 0): 1.0, (3, 0): 0.0})
    decode = decoder(score_threshold=0.5, multi_label=multi_label, **settings)
    found = decode([logits, boxes_of(4)], [FULL_HD])[0]
    assert [round(math.log(float(s) / (1 - float(s)))) for s in found.scores] == kept


@pytest.mark.parametrize(
    ("settings", "classes"),
    [
        pytest.param({}, [0, 1], id="sigmoid"),
        pytest.param({"multi_label": False}, [0], id="best-class"),
        pytest.param({"use_softmax": True, "score_threshold": 0.3}, [0], id="softmax-best-class"),
        pytest.param({"use_softmax": True, "score_threshold": 0.3, "multi_label": True}, [0, 1], id="softmax-both"),
    ],
)
def test_how_many_classes_a_query_may_give(settings: dict[str, Any], classes: list[int]) -> None:
    logits = np.array([[[2.0, 1.8, -5]]], np.float32)
    assert decoder(**settings)([logits, boxes_of(1, BOX)], [FULL_HD])[0].class_ids.tolist() == classes


@pytest.mark.parametrize(
    ("classes", "background", "kept"),
    [
        pytest.param(2, None, [], id="one-column-more-is-no-object"),
        pytest.param(None, None, [], id="no-count-the-last-is-no-object"),
        pytest.param(3, None, [2], id="as-many-as-classes-all-are"),
        pytest.param(3, -1, [], id="told"),
        pytest.param(2, 0, [2], id="told-first"),
    ],
)
def test_the_column_of_no_object_under_softmax(classes: int | None, background: int | None, kept: list[int]) -> None:
    decode = decoder(use_softmax=True, num_classes=classes, background_class=background)
    found = decode([np.array([[[0, 0, 5]]], np.float32), boxes_of(1, BOX)], [FULL_HD])[0]
    assert found.class_ids.tolist() == kept


def test_a_softmax_that_outputs_names_is_the_same_softmax() -> None:
    outputs = {"boxes": {"tensor": 1}, "logits": {"tensor": 0, "activation": "softmax"}}
    raw = [np.array([[[1, 0.9, 1.5]]], np.float32), boxes_of(1, BOX)]
    named = decoder(outputs=outputs, score_threshold=0.2)(raw, [FULL_HD])[0]
    assert plain(named) == plain(decoder(use_softmax=True, score_threshold=0.2)(raw, [FULL_HD])[0])
    assert named.class_ids.tolist() == [0]


def test_best_class_is_chosen_among_the_foreground() -> None:
    decode = decoder(use_softmax=True, score_threshold=0.2)
    found = decode([np.array([[[1, 0, 1.5]]], np.float32), boxes_of(1, BOX)], [FULL_HD])[0]
    assert plain(found) == [(0, 0.3315, BOX_PIXELS)]


@pytest.mark.parametrize(
    ("box", "settings", "expected"),
    [
        pytest.param((0.5, 0.5, 0.25, 0.5), {}, BOX_PIXELS, id="fractions"),
        pytest.param((320, 320, 160, 320), {}, BOX_PIXELS, id="pixels"),
        pytest.param((320, 320, 160, 320), {"boxes_normalized": False}, BOX_PIXELS, id="pixels-told"),
        pytest.param((1, 1, 2, 2), {"boxes_normalized": False}, [0, 0, 6, 3.375], id="small-pixels-told"),
        pytest.param((0.5, 0.5, 4, 4), {"boxes_normalized": True}, [0, 0, 1920, 1080], id="large-fractions-told"),
        pytest.param((0.375, 0.25, 0.625, 0.75), {"box_format": "xyxy"}, BOX_PIXELS, id="corners-told"),
        pytest.param((-0.1, 0.5, 0.5, 0.5), {}, [0, 270, 288, 810], id="clipped"),
    ],
)
def test_boxes(box: tuple[float, ...], settings: dict[str, Any], expected: list[float]) -> None:
    found = decoder(**settings)([logits_of(1, 2, {(0, 0): 2.0}), boxes_of(1, box)], [FULL_HD])[0]
    assert found.boxes[0].tolist() == pytest.approx(expected, abs=1e-3)


def test_a_few_wild_boxes_do_not_turn_fractions_into_pixels() -> None:
    boxes = boxes_of(4, BOX, (9, 9, 9, 9))
    found = decoder()([logits_of(4, 2, {(0, 0): 2.0}), boxes], [FULL_HD])[0]
    assert plain(found)[0][2] == BOX_PIXELS


def test_letterbox() -> None:
    frame = FrameGeometry((720, 1280), (360, 640), (640, 640), (140, 0))
    found = decoder()([logits_of(1, 2, {(0, 0): 2.0}), boxes_of(1, (0.5, 0.5, 1, 360 / 640))], [frame])[0]
    assert found.boxes[0].tolist() == pytest.approx([0, 0, 1280, 720], abs=1e-3)


def test_boxes_without_area_are_dropped() -> None:
    outputs = [logits_of(2, 2, {(0, 0): 2.0, (1, 0): 2.0}), boxes_of(2, (0.5, 0.5, 0, 0.5), (1.5, 0.5, 0.5, 0.5))]
    assert len(decoder()(outputs, [FULL_HD])[0]) == 0


def test_ties_go_to_the_lower_index() -> None:
    logits = logits_of(3, 3, {(0, 2): 2.0, (0, 1): 2.0, (2, 0): 2.0})
    found = decoder(top_k=2)([logits, boxes_of(3)], [FULL_HD])[0]
    assert found.class_ids.tolist() == [1, 2]


def test_rows_are_sorted_and_cut() -> None:
    rows = rows_of((*BOX, 0.6, 1), (*BOX, 0.9, 2), (*BOX, 0.7, 3), (*BOX, 0.8, 2))
    found = decoder(("x",), num_classes=80, max_det=2, background_class=3)([rows], [FULL_HD])[0]
    assert [entry[:2] for entry in plain(found)] == [(2, 0.9), (2, 0.8)]
    found = decoder(("x",), num_classes=80, background_class=2)([rows], [FULL_HD])[0]
    assert [entry[:2] for entry in plain(found)] == [(3, 0.7), (1, 0.6)]


def test_no_object_counted_from_the_end_takes_no_class_from_rows() -> None:
    rows = rows_of((*BOX, 0.6, 79))
    found = decoder(("x",), num_classes=80, use_softmax=True, background_class=-1)([rows], [FULL_HD])[0]
    assert found.class_ids.tolist() == [79]


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(rows_of((*BOX, 7.28, 1)), id="rows"),
        pytest.param(np.array([[[*BOX, 7.28, 0.1, 0.1]]], np.float32), id="scores"),
    ],
)
def test_b13_scores_beyond_1_are_refused(head: np.ndarray) -> None:
    with pytest.raises(DecodeValueError, match=r"scores reach 7\.28, expected 0\.\.1"):
        decoder(("x",), num_classes=3)([head], [FULL_HD])


def test_a_score_that_half_precision_rounded_up_is_1() -> None:
    found = decoder(("x",), num_classes=3)([rows_of((*BOX, 1.002, 1))], [FULL_HD])[0]
    assert found.scores.tolist() == [1.0]


@pytest.mark.parametrize("background", [7, -9])
def test_background_outside_the_columns_is_refused(background: int) -> None:
    with pytest.raises(DecodeError, match=f"background_class within 4 class columns, got {background}"):
        decoder(background_class=background)([logits_of(3, 4, {}), boxes_of(3)], [FULL_HD])


@pytest.mark.parametrize(("columns", "use_softmax"), [(0, False), (1, True)])
def test_a_head_without_classes_is_refused(columns: int, use_softmax: bool) -> None:
    with pytest.raises(DecodeError, match="class columns besides the background"):
        decoder(use_softmax=use_softmax)([logits_of(3, columns, {}), boxes_of(3)], [FULL_HD])


def test_the_raw_outputs_stay_as_they_are() -> None:
    rows = rows_of((*BOX, np.nan, 1), (*BOX, 1.002, 1))
    before = rows.copy()
    decoder(("x",), num_classes=3)([rows], [FULL_HD])
    np.testing.assert_array_equal(rows, before)


@pytest.mark.parametrize("filling", [0.0, -1.0])
def test_padding_says_nothing_about_the_unit(filling: float) -> None:
    boxes, scores, labels = np.full((1, 300, 4), filling), np.zeros((1, 300)), np.zeros((1, 300), np.int64)
    boxes[0, :3] = [100, 100, 200, 200], [300, 300, 400, 380], [10, 10, 60, 60]
    scores[0, :3], labels[0, :3] = [0.9, 0.8, 0.7], [1, 2, 3]
    found = decoder(("labels", "boxes", "scores"), num_classes=80)([labels, boxes, scores], [FULL_HD])[0]
    assert [entry[2] for entry in plain(found)] == [
        [300.0, 168.75, 600.0, 337.5],
        [900.0, 506.25, 1200.0, 641.25],
        [30.0, 16.88, 180.0, 101.25],
    ]
    rows = rows_of((320, 320, 160, 320, 0.9, 7))
    assert plain(decoder(("x",), num_classes=80)([rows], [FULL_HD])[0]) == [(7, 0.9, BOX_PIXELS)]


@pytest.mark.parametrize("use_softmax", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("names", [("scores", "boxes"), ("logits", "pred_boxes")])
def test_probabilities_are_no_logits(use_softmax: bool, exclusive: bool, names: tuple[str, str]) -> None:
    scores = np.linspace(0.01, 0.05, 200, dtype=np.float32).reshape(1, 50, 4)
    scores[0, 0, 2] = 0.9
    if exclusive:
        scores[..., 3] = 1 - scores[..., :3].sum(axis=2)
    decode = decoder(names, num_classes=4, use_softmax=use_softmax, background_class=3)
    with pytest.raises(DecodeValueError, match=r"got \[50, 4\] .* probabilities already; name .* outputs\.scores"):
        decode([scores, boxes_of(50, BOX)], [FULL_HD])
    named = {"boxes": {"tensor": 1}, "scores": {"tensor": 0}}
    found = decoder(names, outputs=named, num_classes=4, background_class=3)([scores, boxes_of(50, BOX)], [FULL_HD])
    assert plain(found[0]) == [(2, 0.9, BOX_PIXELS)]


@pytest.mark.parametrize(
    "logits",
    [
        pytest.param(np.zeros((1, 50, 4)), id="nothing"),
        pytest.param(np.full((1, 50, 4), 0.1), id="one-number"),
        pytest.param(np.random.default_rng(1).random((1, 50, 4)), id="evenly-spread"),
    ],
)
def test_numbers_that_are_no_probabilities_are_logits(logits: np.ndarray) -> None:
    assert len(decoder(num_classes=4)([logits, boxes_of(50, BOX)], [FULL_HD])[0]) == 50 * 4
