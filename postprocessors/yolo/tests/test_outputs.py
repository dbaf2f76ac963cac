"""Which outputs are taken for what: pairs, chosen rows, several heads, the manifest's own names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from postprocessors.contract import DecodeError, DecodeValueError
from postprocessors.geometry import FrameGeometry
from postprocessors.yolo.heads import HeadRule, Reading, anchor_counts
from postprocessors.yolo.tests.heads import SQUARE, decoder, head, plain

BOX = [100.0, 100.0, 200.0, 300.0]


def pair(classes: int, anchors: int = 8400, channels_first: bool = False) -> list[np.ndarray]:
    """Return boxes [1, N, 4] and scores [1, N, classes] (or [1, classes, N]); anchor 5 holds BOX, class 2 = 0.9."""
    boxes, scores = np.zeros((1, anchors, 4), np.float32), np.zeros((1, anchors, classes), np.float32)
    boxes[0, 5], scores[0, 5, 2] = BOX, 0.9
    return [boxes, np.ascontiguousarray(scores.transpose(0, 2, 1)) if channels_first else scores]


@pytest.mark.parametrize("classes", [3, 4, 80])
@pytest.mark.parametrize("boxes_first", [True, False])
@pytest.mark.parametrize("channels_first", [True, False])
def test_boxes_and_scores_are_told_apart_by_shape(classes: int, boxes_first: bool, channels_first: bool) -> None:
    outputs = pair(classes, channels_first=channels_first)
    # YOLO-NAS of LibreYOLO calls the boxes pred_logits and the scores pred_boxes.
    names = ("pred_logits", "pred_boxes") if boxes_first else ("pred_boxes", "pred_logits")
    found = decoder(classes, names=names)(outputs if boxes_first else outputs[::-1], [SQUARE])[0]
    assert plain(found) == [(2, 0.9, BOX)]


def test_boxes_of_a_pair_can_be_centres() -> None:
    found = decoder(80, box_format="cxcywh")(pair(80), [SQUARE])[0]
    assert plain(found) == [(2, 0.9, [0.0, 0.0, 200.0, 250.0])]


def test_corners_in_one_tensor_are_asked_for() -> None:
    raw = head(80, 2100, (100, 100, 200, 300, 2, 0.9))
    assert plain(decoder(80, box_format="xyxy")([raw], [SQUARE])[0]) == [(2, 0.9, BOX)]


def test_of_a_raw_head_and_its_chosen_rows_the_rows_are_taken() -> None:
    rows = np.zeros((1, 300, 6), np.float32)
    rows[0, 0] = [*BOX, 0.9, 2]
    raw = head(80, 8400, (400, 400, 50, 50, 7, 0.8))
    for outputs in ([rows, raw], [raw, rows]):
        assert plain(decoder(80)(outputs, [SQUARE])[0]) == [(2, 0.9, BOX)]


def test_one_score_per_box_is_the_score_of_the_only_class() -> None:
    boxes, scores = pair(3)
    for outputs in ([boxes, scores[..., 2]], [scores[..., 2], boxes]):
        assert plain(decoder(1)(outputs, [SQUARE])[0]) == [(0, 0.9, BOX)]
        with pytest.raises(DecodeError, match="expected one output of rank 3"):
            decoder(3)(outputs, [SQUARE])


def test_more_than_chosen_rows_are_not_guessed() -> None:
    with pytest.raises(DecodeError, match="expected one output of rank 3"):
        decoder(3)([np.ones((1, 9, 4)), np.ones((1, 9)), np.ones((1, 9)), np.ones((1, 9))], [SQUARE])


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32])
def test_a_class_for_every_anchor_is_a_raw_head(dtype: type[np.generic]) -> None:
    boxes, scores = np.zeros((1, 8400, 4), np.float32), np.zeros((1, 8400), np.float32)
    classes = np.zeros((1, 8400), dtype)
    boxes[0, 7:11] = BOX, [101, 100, 200, 300], BOX, BOX
    scores[0, 7:11], classes[0, 7:11] = [0.8, 0.9, 0.7, np.nan], [5, 5, 6, 7]
    expected = [(5, 0.9, [101.0, 100.0, 200.0, 300.0]), (6, 0.7, BOX)]
    names = ("boxes", "scores", "class_idx")
    assert plain(decoder(80, names=names)([boxes, scores, classes], [SQUARE])[0]) == expected
    # With a count beside them the graph has chosen.
    found = decoder(80)([boxes, scores, classes, np.array([8400])], [SQUARE])[0]
    assert len(found) == 3
    with pytest.raises(DecodeValueError, match=r"class 6 .* whole numbers from 0 to 5"):
        decoder(6, names=names)([boxes, scores, classes], [SQUARE])


NAMED: dict[str, Any] = {"boxes": {"tensor": "b"}, "scores": {"tensor": "s"}, "classes": {"tensor": "c"}}


def test_the_manifest_names_a_pair_and_its_activation() -> None:
    boxes, scores = pair(80)
    logits = np.where(scores > 0, np.float32(2.1972246), np.float32(-9))
    outputs = {"boxes": {"tensor": "b"}, "scores": {"tensor": "s", "activation": "sigmoid"}}
    found = decoder(80, outputs=outputs, names=("s", "b"))([logits, boxes], [SQUARE])[0]
    assert plain(found) == [(2, 0.9, BOX)]


def test_the_manifest_names_chosen_rows() -> None:
    boxes, scores, classes = np.zeros((1, 9, 4)), np.zeros((1, 9)), np.zeros((1, 9))
    boxes[0, :2], scores[0, :2], classes[0, :2] = [BOX, [1, 1, 9, 9]], [0.9, 0.8], 2
    outputs = [classes, scores, boxes, np.array([1])]
    named = {**NAMED, "count": {"tensor": "n"}}
    assert plain(decoder(80, outputs=named, names="csbn")(outputs, [SQUARE])[0]) == [(2, 0.9, BOX)]
    assert len(decoder(80, outputs=NAMED, names="csb")(outputs[:3], [SQUARE])[0]) == 2


@pytest.mark.parametrize(
    ("named", "outputs", "expected"),
    [
        pytest.param(["boxes"], [np.zeros((84, 10))], r"got \[84, 10\]", id="head"),
        pytest.param(
            ["boxes", "scores"], [np.zeros((1, 9, 4)), np.zeros((1, 9, 7))], r"scores \[B, N, 80\]", id="pair"
        ),
        pytest.param(
            ["boxes", "scores", "classes"],
            [np.zeros((1, 9, 4)), np.zeros((1, 9)), np.zeros((1, 8))],
            r"classes \[B, K\]",
            id="chosen",
        ),
        pytest.param(
            ["boxes", "scores", "classes", "count"],
            [np.zeros((1, 9, 4)), np.zeros((1, 9)), np.zeros((1, 9)), np.zeros(2)],
            "one count per image, got 2",
            id="count",
        ),
    ],
)
def test_named_outputs_of_other_shapes_are_refused(named: list[str], outputs: list[np.ndarray], expected: str) -> None:
    adapter = {meaning: {"tensor": index} for index, meaning in enumerate(named)}
    with pytest.raises(DecodeError, match=expected):
        decoder(80, outputs=adapter, names=[""] * len(outputs))(outputs, [SQUARE])


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        pytest.param([*BOX, 0.9, 80], "class 80 in an end-to-end row, expected whole numbers from 0 to 79", id="past"),
        pytest.param([*BOX, 0.9, 1.5], r"class 1\.5", id="no-whole-number"),
        pytest.param([*BOX, 7.3, 1], r"reach 7\.3, expected 0\.\.1", id="logit"),
    ],
)
def test_rows_that_cannot_be_are_refused(row: list[float], expected: str) -> None:
    raw = np.zeros((1, 300, 6), np.float32)
    raw[0, 0] = row
    with pytest.raises(DecodeValueError, match=expected):
        decoder(80)([raw], [SQUARE])


def test_rows_that_do_not_count_are_not_looked_at() -> None:
    raw = np.zeros((1, 300, 6), np.float32)
    raw[0, 0] = [*BOX, 0.9, 2]
    raw[0, 1] = [*BOX, 0.1, 99]
    raw[0, 2] = [5, 5, 5, 5, 0.8, 99]
    assert plain(decoder(80)([raw], [SQUARE])[0]) == [(2, 0.9, BOX)]


def test_rows_are_put_in_order_and_cut() -> None:
    raw = np.zeros((1, 300, 6), np.float32)
    raw[0, :3] = [[*BOX, 0.5, 1], [*BOX, 0.9, 2], [*BOX, 0.7, 3]]
    assert decoder(80, max_det=2)([raw], [SQUARE])[0].class_ids.tolist() == [2, 3]


def test_without_numbers_behind_the_point_the_names_or_the_order_decide() -> None:
    boxes = np.zeros((1, 9, 4), np.float32)
    boxes[0, 0] = BOX
    scores, classes = np.zeros((1, 9), np.float32), np.zeros((1, 9), np.float32)
    scores[0, 0], classes[0, 0] = 1, 7
    for outputs in ([boxes, scores, classes], [boxes, classes, scores]):
        assert plain(decoder(80, names=("", "", ""))(outputs, [SQUARE])[0]) == [(7, 1.0, BOX)]
    classes[0, 0] = 1
    assert plain(decoder(80, names=("b", "labels", "s"))([boxes, classes, scores], [SQUARE])[0]) == [(1, 1.0, BOX)]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        pytest.param((1, 84, 8400), [Reading(False, False, True, 0)], id="ultralytics"),
        pytest.param((1, 25200, 85), [Reading(True, False, False, 0)], id="yolov5"),
        pytest.param((1, 300, 6), [Reading(False, True, False, 0)], id="end-to-end"),
        pytest.param((1, 84, 84), [Reading(False, False, True, 0), Reading(False, False, False, 0)], id="square"),
        pytest.param((1, 85, 85), [Reading(True, False, False, 0), Reading(True, False, True, 0)], id="square-yolov5"),
        pytest.param((1, 84, 85), [Reading(False, False, True, 0), Reading(True, False, False, 0)], id="two-axes"),
        pytest.param((1, 6, 300), [], id="rows-are-last"),
        pytest.param((84, 8400), [], id="rank"),
    ],
)
def test_readings_in_the_order_of_convention(shape: tuple[int, ...], expected: list[Reading]) -> None:
    assert HeadRule(80, {}).readings(shape, (0,)) == expected


@pytest.mark.parametrize(
    ("network", "anchors"),
    [
        pytest.param((640, 640), 8400, id="P3-P5"),
        pytest.param((640, 640), 25200, id="three-per-cell"),
        pytest.param((32, 64), 42, id="not-square"),
        pytest.param((320, 320), 2125, id="with-P6"),
        pytest.param((1280, 1280), 33600, id="1280"),
        pytest.param((416, 416), 2535, id="tiny"),
    ],
)
def test_anchor_counts(network: tuple[int, int], anchors: int) -> None:
    assert anchors in anchor_counts(network)


def test_the_number_of_anchors_decides_between_two_axes() -> None:
    frame = FrameGeometry((64, 64), (64, 64), (64, 64))
    raw = np.zeros((1, 84, 85), np.float32)
    # YOLOX at 64: 84 anchors of 5 + 80 channels.
    raw[0, 3, :5], raw[0, 3, 5 + 7] = [32, 32, 16, 16, 0.9], 1.0
    assert plain(decoder(80)([raw], [frame])[0]) == [(7, 0.9, [24.0, 24.0, 40.0, 40.0])]


def multi_label_head() -> np.ndarray:
    raw = head(3, 9, (100, 100, 20, 20, 0, 0.5), (300, 100, 20, 20, 1, 0.4))
    raw[0, 4 + 2, 0] = 0.45
    return raw


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({}, [(0, 0.5), (1, 0.4)], id="best-class"),
        pytest.param({"multi_label": True}, [(0, 0.5), (2, 0.45), (1, 0.4)], id="every-class"),
        pytest.param({"multi_label": True, "class_agnostic": True}, [(0, 0.5), (1, 0.4)], id="agnostic"),
        pytest.param({"multi_label": True, "classes": [2]}, [(2, 0.45)], id="classes"),
        pytest.param({"classes": [2]}, [], id="the-best-class-is-not-kept"),
    ],
)
@pytest.mark.parametrize("objectness", [False, True])
def test_best_class_or_every_class(settings: dict[str, Any], expected: list[Any], objectness: bool) -> None:
    raw = multi_label_head()
    outputs = [np.insert(raw, 4, 1.0, axis=1) if objectness else raw]
    assert [row[:2] for row in plain(decoder(3, **settings)(outputs, [SQUARE])[0])] == expected


def test_yolov5_looks_at_objectness_first() -> None:
    raw = np.zeros((1, 9, 8), np.float32)
    raw[0, 0] = [100, 100, 20, 40, 0.25, 1, 0, 0]
    assert len(decoder(3, compare="greater")([raw], [SQUARE])[0]) == 0
    assert len(decoder(3)([raw], [SQUARE])[0]) == 1
    raw[0, 0, 4] = 1.5
    with pytest.raises(DecodeValueError, match=r"objectness scores reach 1\.5"):
        decoder(3)([raw], [SQUARE])


def test_boxes_can_be_cut_off_before_suppression() -> None:
    # Left of the image's edge the two differ; inside they are nearly one.
    frame = FrameGeometry((640, 320), (640, 320), (640, 640), (0, 160))
    raw = head(1, 9, (160, 100, 200, 50, 0, 0.9), (210, 100, 100, 50, 0, 0.8))
    assert len(decoder(1, iou_threshold=0.6)([raw], [frame])[0]) == 2
    assert len(decoder(1, iou_threshold=0.6, clip_before_nms=True)([raw], [frame])[0]) == 1


@pytest.mark.parametrize("count", [100, 9000])
def test_few_and_many_hits_give_the_same(count: int) -> None:
    """Beyond a number of hits the anchors are gone through in chunks."""
    rng = np.random.default_rng(count)
    raw = np.concatenate([rng.uniform(10, 600, (1, 4, count)), rng.random((1, 20, count))], axis=1).astype(np.float32)
    best = raw[0, 4:].max(axis=0)
    ids = raw[0, 4:].argmax(axis=0)
    found = decoder(20, score_threshold=0.5, iou_threshold=1.0, max_det=100)([raw], [SQUARE])[0]
    order = np.argsort(-best, kind="stable")[:100]
    assert found.scores.tolist() == best[order].tolist()
    assert found.class_ids.tolist() == ids[order].tolist()


def test_a_class_that_is_not_kept_crowds_out_none_that_is() -> None:
    raw = np.zeros((1, 6, 40_000), np.float32)
    raw[0, :4] = [[100], [100], [20], [20]]
    raw[0, 4], raw[0, 5, -1] = 0.5, 0.6
    raw[0, 4, -1] = 0
    raw[0, 4:, -2] = 0.1, 0.2
    found = decoder(2, score_threshold=0.0, classes=[1], objectness=False)([raw], [SQUARE])[0]
    assert [row[:2] for row in plain(found)] == [(1, 0.6)]
    found = decoder(2, score_threshold=0.0, classes=[1], iou_threshold=1.0)([raw], [SQUARE])[0]
    assert [row[:2] for row in plain(found)] == [(1, 0.6), (1, 0.2)]
