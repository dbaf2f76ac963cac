"""Which output is what, for every layout of docs and for those that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from postprocessors.contract import DecodeError
from postprocessors.detr.tests.heads import BOX, BOX_PIXELS, FULL_HD, boxes_of, decoder, logits_of, plain, rows_of

CORNERS = (0.375, 0.25, 0.625, 0.75)
FOUND = [(1, 0.8, BOX_PIXELS)]


def post_processed(scale: float = 1) -> dict[str, np.ndarray]:
    boxes = boxes_of(3, *[np.array(CORNERS, np.float32) * scale] * 3)
    return {
        "labels": np.array([[1, 0, 2]], np.float32),
        "boxes": boxes,
        "scores": np.array([[0.8, 0.3, 0.1]], np.float32),
    }


@pytest.mark.parametrize("scale", [pytest.param(1, id="fractions"), pytest.param(640, id="network-pixels")])
@pytest.mark.parametrize(
    "order",
    [
        pytest.param(["labels", "boxes", "scores"], id="as-exported"),
        pytest.param(["scores", "labels", "boxes"], id="scores-first"),
        pytest.param(["boxes", "scores", "labels"], id="boxes-first"),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_post_processed(order: list[str], named: bool, scale: float) -> None:
    raw = post_processed(scale)
    decode = decoder(order if named else [""] * 3, num_classes=3)
    assert plain(decode([raw[meaning] for meaning in order], [FULL_HD])[0]) == FOUND


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("boxes", "det_classes", ""), id="classes"),
        pytest.param(("boxes", "", "scores"), id="scores"),
        pytest.param(("boxes", "", ""), id="in-the-exporters-order"),
    ],
)
def test_labels_and_scores_that_look_alike(names: tuple[str, ...]) -> None:
    ones = np.ones((1, 3), np.float32)
    labels, scores = ones, ones * [[1, 0, 0]]
    found = decoder(names, num_classes=3)([post_processed()["boxes"], labels, scores], [FULL_HD])[0]
    assert plain(found) == [(1, 1.0, BOX_PIXELS)]


def test_labels_by_name_in_spite_of_values() -> None:
    raw = [np.array([[1, 0.5]]), np.array([[1.0, 0.0]]), np.array([[CORNERS] * 2])]
    found = decoder(("labels", "scores", "boxes"), num_classes=3)(raw, [FULL_HD])[0]
    assert plain(found) == [(1, 1.0, BOX_PIXELS)]


def test_scores_by_name_in_spite_of_values() -> None:
    raw = [np.array([[1.0]]), np.array([[1.0]]), np.array([[CORNERS]])]
    found = decoder(("confidence", "ids", "boxes"), num_classes=3)(raw, [FULL_HD])[0]
    assert found.class_ids.tolist() == [1]


def test_a_pair_among_what_training_needs() -> None:
    names = ("logits", "pred_boxes", "last_hidden_state", "enc_topk_logits", "enc_topk_bboxes")
    raw = [
        logits_of(5, 3, {(0, 1): 1.3863}),
        boxes_of(5, BOX),
        np.ones((1, 5, 256), np.float32),
        np.ones((1, 5, 3), np.float32),
        boxes_of(5),
    ]
    assert plain(decoder(names, num_classes=3)(raw, [FULL_HD])[0]) == FOUND


def test_outputs_of_other_ranks_do_not_disturb_a_pair() -> None:
    raw = [np.ones((6, 1, 5, 3)), logits_of(5, 3, {(0, 1): 1.3863}), boxes_of(5, BOX), np.ones((1, 5))]
    assert plain(decoder(("",) * 4, num_classes=3)(raw, [FULL_HD])[0]) == FOUND


SCORES = np.array([[[*BOX, 0.1, 0.8], [*BOX, 0.2, 0.0]]], np.float32)
THREE = np.insert(SCORES, 6, [0.7, 0.1], axis=2)


@pytest.mark.parametrize(
    ("head", "settings"),
    [
        pytest.param(rows_of((*BOX, 0.8, 1)), {"num_classes": 80}, id="rows"),
        pytest.param(rows_of((*BOX, 0.8, 1)), {"num_classes": 2}, id="rows-of-two-classes"),
        pytest.param(rows_of((*BOX, 0.8, 1)), {"num_classes": 2, "end_to_end": True}, id="rows-asked-for"),
        pytest.param(SCORES, {"num_classes": 2}, id="scores-of-two-classes"),
        pytest.param(SCORES, {"num_classes": 2, "end_to_end": False}, id="scores-asked-for"),
        pytest.param(THREE, {"num_classes": 3}, id="best-class-of-a-query-only"),
        pytest.param(THREE, {}, id="no-count"),
        pytest.param(rows_of((*BOX, 0.8, 1), (*BOX, 0.7, 2)), {"num_classes": 2}, id="class-past-the-last"),
        pytest.param(rows_of((*BOX, 0.8, 1), (*BOX, 0.7, 0.5)), {"num_classes": 3}, id="half-a-class"),
        pytest.param(rows_of((*BOX, 0.8, 1), (*BOX, 0.7, -1)), {"num_classes": 3}, id="class-below-0"),
    ],
)
def test_one_output(head: np.ndarray, settings: dict[str, Any]) -> None:
    assert plain(decoder(("output0",), **settings)([head], [FULL_HD])[0]) == FOUND


@pytest.mark.parametrize(
    "scores",
    [
        pytest.param([(0.9, 0.5), (0.8, 0.25)], id="falling-but-no-classes"),
        pytest.param([(0.1, 1.0), (0.8, 0.0)], id="whole-but-not-falling"),
    ],
)
def test_scores_of_two_classes_that_resemble_rows(scores: list[tuple[float, float]]) -> None:
    head = np.array([[[*BOX, *pair] for pair in scores]], np.float32)
    found = decoder(("output0",), num_classes=2)([head], [FULL_HD])[0]
    assert found.scores.tolist() == sorted((float(np.float32(max(pair))) for pair in scores), reverse=True)


@pytest.mark.parametrize(
    ("outputs", "raw"),
    [
        pytest.param({"boxes": {"tensor": "b"}, "logits": {"tensor": 0}}, 1.3863, id="logits"),
        pytest.param({"boxes": {"tensor": 1}, "logits": {"tensor": 0, "activation": "sigmoid"}}, 1.3863, id="once"),
        pytest.param({"boxes": {"tensor": 1}, "scores": {"tensor": 0}}, 0.8, id="probabilities"),
        pytest.param({"boxes": {"tensor": 1}, "scores": {"tensor": 0, "activation": "sigmoid"}}, 1.3863, id="lacking"),
    ],
)
def test_named_outputs_win(outputs: dict[str, Any], raw: float) -> None:
    outputs_raw = [logits_of(5, 3, {(0, 1): raw}, floor=-6.2 if raw > 1 else 0), boxes_of(5, BOX), boxes_of(5)]
    assert plain(decoder(("a", "b", "c"), outputs=outputs, num_classes=3)(outputs_raw, [FULL_HD])[0]) == FOUND


def test_named_probabilities_may_give_several_classes() -> None:
    outputs = {"boxes": {"tensor": 1}, "scores": {"tensor": 0}}
    raw = [np.array([[[0.9, 0.8]]], np.float32), boxes_of(1, BOX)]
    assert len(decoder(outputs=outputs)(raw, [FULL_HD])[0]) == 2


def test_named_rows_and_a_named_head() -> None:
    raw = post_processed()
    outputs = {"boxes": {"tensor": 2}, "scores": {"tensor": 0}, "classes": {"tensor": 1}}
    decode = decoder(("labels", "scores", "x"), outputs=outputs, num_classes=3)
    assert plain(decode([raw["scores"], raw["labels"], raw["boxes"]], [FULL_HD])[0]) == FOUND
    decode = decoder(("a", "b"), outputs={"boxes": {"tensor": 1}}, num_classes=80)
    assert plain(decode([boxes_of(3), rows_of((*BOX, 0.8, 1))], [FULL_HD])[0]) == FOUND


def test_a_named_head_of_another_rank_is_refused() -> None:
    decode = decoder(("a", "b"), outputs={"boxes": {"tensor": 0}}, num_classes=80)
    with pytest.raises(DecodeError, match=r"got \[1, 3\], \[1, 300, 6\]"):
        decode([np.zeros((1, 3)), rows_of()], [FULL_HD])


@pytest.mark.parametrize("named", [{"logits"}, {"scores"}, {"boxes", "classes"}, {"boxes", "masks"}])
def test_meanings_that_do_not_belong_together(named: set[str]) -> None:
    with pytest.raises(DecodeError, match="outputs: expected boxes, logits or boxes, scores or boxes, classes, scores"):
        decoder(outputs={meaning: {"tensor": 0} for meaning in named})


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        pytest.param([], "expected boxes .*; got none", id="none"),
        pytest.param([boxes_of(3)[0], logits_of(3, 8, {})[0]], r"got \[3, 4\], \[3, 8\]", id="no-batch-axis"),
        pytest.param([boxes_of(3), logits_of(2, 8, {})], r"expected boxes .* and logits", id="query-counts-differ"),
        pytest.param([np.zeros((1, 3, 5)), logits_of(3, 8, {})], r"expected boxes .* and logits", id="no-boxes"),
        pytest.param([logits_of(3, 8, {})] * 3, r"got \[1, 3, 8\], \[1, 3, 8\], \[1, 3, 8\]", id="three-alike"),
        pytest.param([np.zeros((1, 300, 7))], r"expected one output \[B, Q, 6 \(rows\) or 12 .*got \[1, 300, 7\]"),
        pytest.param([boxes_of(3), np.zeros((1, 2)), np.zeros((1, 3))], "with scores and labels", id="rows-differ"),
        pytest.param([boxes_of(3), np.zeros((1, 3)), np.zeros((3, 1))], "with scores and labels", id="turned"),
    ],
)
def test_shapes_that_are_refused(outputs: list[np.ndarray], expected: str) -> None:
    with pytest.raises(DecodeError, match=expected) as caught:
        decoder(("",) * len(outputs), num_classes=8)(outputs, [FULL_HD])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("width", [4, 6, 84])
def test_a_width_that_contradicts_end_to_end_is_refused(width: int) -> None:
    end_to_end = width != 6
    with pytest.raises(DecodeError, match=rf"expected one output .*got \[1, 3, {width}\]"):
        decoder(("x",), num_classes=80, end_to_end=end_to_end)([np.zeros((1, 3, width))], [FULL_HD])


def test_rows_need_a_class_count() -> None:
    with pytest.raises(DecodeError, match=r"expected detection\.num_classes for rows that the graph chose"):
        decoder(("x",))([rows_of()], [FULL_HD])
    assert decoder(("x",), class_names=["a", "b"])([rows_of((*BOX, 0.8, 1))], [FULL_HD])[0].labels == ("b",)


def test_fewer_images_than_frames_is_refused() -> None:
    with pytest.raises(DecodeError, match="expected 2 images"):
        decoder(num_classes=3)([rows_of()], [FULL_HD, FULL_HD])
