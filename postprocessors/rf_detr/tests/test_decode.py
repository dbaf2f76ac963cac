"""RF-DETR outputs whose right answer was worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from postprocessors.contract import DecodeError, DecodeValueError
from postprocessors.geometry import FrameGeometry
from postprocessors.rf_detr.tests.queries import BOX, BOX_PIXELS, FULL_HD, TWO, boxes_of, decoder, logits_of, plain


def found_ids(logits: np.ndarray, **settings: Any) -> list[int]:
    boxes = boxes_of(logits.shape[1], BOX)
    return decoder(**settings)([boxes, logits], [FULL_HD])[0].class_ids.tolist()


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


@pytest.mark.parametrize(
    ("activation", "score"),
    [pytest.param("none", TWO, id="none"), pytest.param("sigmoid", TWO, id="once"), ("softmax", 0.8945)],
)
def test_an_activation_that_the_manifest_names_is_applied_once(activation: str, score: float) -> None:
    outputs = {"boxes": {"tensor": 0}, "logits": {"tensor": 1, "activation": activation}}
    found = decoder(outputs=outputs)([boxes_of(1, BOX), np.array([[[2.0, -1, -1, -2]]], np.float32)], [FULL_HD])[0]
    assert plain(found) == [(0, score, BOX_PIXELS)]


@pytest.mark.parametrize("meaning", ["boxes", "logits"])
def test_one_named_output_is_not_enough(meaning: str) -> None:
    with pytest.raises(DecodeError, match="outputs: expected both boxes and logits"):
        decoder(outputs={meaning: {"tensor": 0}})


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


def test_probabilities_are_no_logits() -> None:
    scores = np.linspace(0.01, 0.05, 200, dtype=np.float32).reshape(1, 50, 4)
    with pytest.raises(DecodeValueError, match=r"got \[50, 4\] .* probabilities already; export .*layout to detr"):
        decoder(num_classes=4)([boxes_of(50, BOX), scores], [FULL_HD])
