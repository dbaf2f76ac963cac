"""Anomaly outputs whose right verdict was worked out by hand; the ids name the field's known faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from postprocessors.anomaly.decode import AnomalyDecoder, create
from postprocessors.anomaly.support import DEFAULTS
from postprocessors.contract import DecodeError, DecoderConfig, DecodeValueError
from postprocessors.geometry import FrameGeometry
from postprocessors.results import AnomalyResult

FRAME = FrameGeometry((4, 6), (2, 3), (2, 3))


def decoder(
    outputs: dict[str, Any] | None = None, names: tuple[str, ...] = ("",) * 4, **settings: Any
) -> AnomalyDecoder:
    return create(DecoderConfig({**DEFAULTS, **settings}, (), names, outputs or {}))


def verdict(result: AnomalyResult) -> tuple[bool, float, float]:
    return result.is_anomalous, round(result.score, 6), round(result.confidence, 6)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("outputs", "settings", "expected"),
    [
        pytest.param([floats(0.83, 0.17)[None]], {"threshold": 0.702}, (True, 0.83, 0.83), id="B104-anomaly"),
        pytest.param([floats(0.10, 0.90)[None]], {"threshold": 0.702}, (False, 0.1, 0.9), id="B104-normal"),
        pytest.param([floats(0.2, 0.8)[None]], {"class_normal_ids": [0]}, (True, 0.8, 0.8), id="normal-is-index-0"),
        pytest.param([floats(0.3, 0.3, 0.4)[None]], {}, (True, 0.7, 0.7), id="several-anomalous-classes"),
        pytest.param([floats(0.7)], {}, (True, 0.7, 0.7), id="score"),
        pytest.param([floats(0.7)[:, None]], {}, (True, 0.7, 0.7), id="score-with-an-axis"),
        pytest.param([np.float32(0.7)], {}, (True, 0.7, 0.7), id="B105-score-without-axes"),
        pytest.param([floats(3.5)], {"threshold": 2.5}, (True, 3.5, 1.0), id="score-above-one"),
        pytest.param([floats(-3.5)], {}, (False, -3.5, 1.0), id="score-below-zero"),
        pytest.param([floats(0.1, 0.6, 0.2, 0.3).reshape(1, 1, 2, 2)], {}, (True, 0.6, 0.6), id="B105-map-only"),
        pytest.param([floats(0.5)], {}, (True, 0.5, 0.5), id="threshold-itself"),
        pytest.param([floats(0.49996)], {}, (True, 0.49996, 0.49996), id="rounded-up-to-the-threshold"),
        pytest.param([floats(0.49994)], {}, (False, 0.49994, 0.50006), id="rounded-below-the-threshold"),
        pytest.param([floats(0.2, 0.8).reshape(1, 2, 1, 1)], {}, (False, 0.2, 0.8), id="class-head-not-pooled"),
        pytest.param(
            [floats(14)], {"threshold": 12, "score_range": [2, 22]}, (True, 0.6, 0.6), id="distance-scaled-anomalous"
        ),
        pytest.param(
            [floats(7)], {"threshold": 12, "score_range": [2, 22]}, (False, 0.25, 0.75), id="distance-scaled-normal"
        ),
        pytest.param([floats(99)], {"threshold": 12, "score_range": [2, 22]}, (True, 1, 1), id="distance-cut-off"),
    ],
)
def test_verdict(outputs: list[Any], settings: dict[str, Any], expected: tuple[bool, float, float]) -> None:
    (result,) = decoder(**settings)([np.asarray(output) for output in outputs], [FRAME])
    assert verdict(result) == pytest.approx(expected, abs=1e-6)
    assert result.class_mask is None


SCORE, LABEL = floats(0.7), np.array([True])
MAP, MASK = floats(*[0.1, 0.9, 0.2, 0.3, 0.4, 0.2]).reshape(1, 1, 2, 3), np.zeros((1, 1, 2, 3), bool)


@pytest.mark.parametrize(
    "outputs",
    [
        pytest.param([np.float32(0.7), np.bool_(True), MAP, MASK], id="B105-without-axes"),
        pytest.param([SCORE, LABEL, MAP, MASK], id="B105-score-label-map-mask"),
        pytest.param([MASK, MAP, LABEL, SCORE], id="B105-reversed"),
        pytest.param([MAP, SCORE], id="B105-map-and-score"),
        pytest.param([SCORE, LABEL.astype(np.int64), MAP], id="label-as-integer"),
    ],
)
def test_b105_score_wins_in_any_order(outputs: list[np.ndarray]) -> None:
    (result,) = decoder()([np.asarray(output) for output in outputs], [FRAME])
    assert verdict(result) == pytest.approx((True, 0.7, 0.7))


@pytest.mark.parametrize(
    ("outputs", "settings", "expected"),
    [
        pytest.param(
            [SCORE, np.array([[[0, 2, 1], [0, 0, 1]]], np.int64)],
            {"pixel_class_names": ["background", "a", "b"]},
            [[0, 2, 1], [0, 0, 1]],
            id="class-index-per-pixel",
        ),
        pytest.param(
            [SCORE, np.moveaxis(np.eye(3, dtype=np.float32)[[[0, 2, 1], [0, 0, 1]]], -1, 0)[None]],
            {"pixel_class_names": ["background", "a", "b"]},
            [[0, 2, 1], [0, 0, 1]],
            id="class-scores-per-pixel",
        ),
        pytest.param(
            [SCORE, MAP], {"pixel_class_names": ["background", "a"], "threshold": 0.4}, [[0, 1, 0], [0, 1, 0]], id="map"
        ),
    ],
)
def test_pixel_classes(outputs: list[np.ndarray], settings: dict[str, Any], expected: list[list[int]]) -> None:
    (result,) = decoder(**settings)(outputs, [FRAME])
    assert result.class_mask is not None
    # B54: the mask has the source's height and width, each network pixel a 2 x 2 block of it.
    assert result.class_mask.tolist() == np.kron(np.array(expected), np.ones((2, 2), int)).tolist()
    assert result.class_mask.dtype == np.uint8
    assert result.class_names == tuple(settings["pixel_class_names"])


def test_pixel_names_without_a_pixel_head() -> None:
    assert decoder(pixel_class_names=["background", "a"])([SCORE], [FRAME])[0].class_mask is None


def test_letterbox_padding_is_no_part_of_the_mask() -> None:
    frame = FrameGeometry((2, 8), (2, 8), (8, 8), (3, 0))
    pixels = np.ones((1, 8, 8), np.int64)
    pixels[0, 3:5] = [[0, 0, 0, 0, 2, 2, 2, 2]] * 2
    (result,) = decoder(pixel_class_names=["background", "a", "b"])([SCORE, pixels], [frame])
    assert result.class_mask is not None
    assert result.class_mask.tolist() == [[0, 0, 0, 0, 2, 2, 2, 2]] * 2


@pytest.mark.parametrize("offset", [(0, 0), (319, 0), (0, 319)])
@pytest.mark.parametrize("map_side", [2, 3, 20])
def test_any_map_covers_any_placement(map_side: int, offset: tuple[int, int]) -> None:
    resized = (1, 640) if offset[0] else (640, 1) if offset[1] else (640, 640)
    frame = FrameGeometry((9, 9), resized, (640, 640), offset)
    pixels = np.ones((1, map_side, map_side), np.int64)
    (result,) = decoder(pixel_class_names=["background", "a"])([SCORE, pixels], [frame])
    assert result.class_mask is not None
    assert result.class_mask.tolist() == [[1] * 9] * 9


def test_manifest_outputs_win_over_shapes() -> None:
    outputs = {"score": {"tensor": "second"}, "map": {"tensor": 2}}
    decode = decoder(outputs, ("first", "second", "third"))
    assert verdict(decode([floats(0.9), floats(0.2), MAP], [FRAME])[0]) == pytest.approx((False, 0.2, 0.8))


def test_logits_with_an_activation() -> None:
    decode = decoder({"classes": {"tensor": 0, "activation": "softmax"}}, ("logits",))
    assert verdict(decode([floats(3.0, 1.0)[None]], [FRAME])[0])[:2] == (True, 0.880797)


@pytest.mark.parametrize(
    ("outputs", "settings", "expected"),
    [
        pytest.param([], {}, "got none", id="no-output"),
        pytest.param([MASK, LABEL], {}, r"got \[1, 1, 2, 3\], \[1\]", id="no-float-output"),
        pytest.param([floats(0.5, 0.5)[None]], {"class_normal_ids": [2]}, r"class_normal_ids \[2\]", id="id-past-last"),
        pytest.param([floats(0.5, 0.5)[None]], {"class_normal_ids": [0, 1]}, "class head of 2", id="all-are-normal"),
    ],
)
def test_shapes_that_are_refused(outputs: list[np.ndarray], settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(DecodeError, match=expected) as caught:
        decoder(**settings)(outputs, [FRAME])
    assert not isinstance(caught.value, DecodeValueError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("meaning", "tensor"),
    [
        pytest.param("pixel_classes", MAP.reshape(1, 6), id="pixels-without-rows"),
        pytest.param("map", MAP.reshape(1, 6), id="map-without-rows"),
        pytest.param("map", np.zeros((1, 2, 4, 4), np.float32), id="map-of-two-channels"),
        pytest.param("map", np.zeros((1, 1, 0, 4), np.float32), id="empty-map"),
        pytest.param("score", floats(0.1, 0.9)[None], id="two-scores"),
        pytest.param("classes", floats(0.9), id="classes-without-an-axis"),
    ],
)
def test_a_named_output_of_another_shape_is_refused(meaning: str, tensor: np.ndarray) -> None:
    decode = decoder({meaning: {"tensor": 1}}, pixel_class_names=["background", "a"])
    with pytest.raises(DecodeError, match=f"expected .* as {meaning}, got"):
        decode([SCORE, tensor], [FRAME])


@pytest.mark.parametrize(
    "outputs",
    [
        pytest.param([SCORE], id="fewer"),
        # A two-neuron head without its batch axis is not the scores of two images.
        pytest.param([floats(0.1, 0.2, 0.7)], id="more"),
        pytest.param([floats(0.1, 0.2), MAP], id="map-of-one"),
    ],
)
def test_another_number_of_images_is_refused(outputs: list[np.ndarray]) -> None:
    with pytest.raises(DecodeError, match="expected 2 images"):
        decoder()(outputs, [FRAME, FRAME])


def test_an_empty_head_is_refused() -> None:
    with pytest.raises(DecodeError, match="anomaly"):
        decoder()([np.zeros((1, 1, 0, 4), np.float32)], [FRAME])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_b72_a_score_that_is_no_number(value: float) -> None:
    with pytest.raises(DecodeValueError, match="finite score"):
        decoder()([floats(value)], [FRAME])


def test_one_result_per_image() -> None:
    results = decoder()([floats(0.2, 0.7)], [FRAME, FRAME])
    assert [result.is_anomalous for result in results] == [False, True]


def test_several_anomalous_classes_that_do_not_exclude_each_other_are_no_score() -> None:
    with pytest.raises(DecodeValueError, match=r"1 in total, got 1\.9; .* outputs\.classes\.activation"):
        decoder(class_normal_ids=[2])([floats(0.9, 0.9, 0.1)[None]], [FRAME])
    assert verdict(decoder()([floats(0.9, 0.3)[None]], [FRAME])[0]) == (True, 0.9, 0.9)


@pytest.mark.parametrize(("heads", "score"), [((1.0005, 0.0), 1.0), ((-0.0005, 1.0), 0.0), ((0.6, 0.0, 0.401), 1.0)])
def test_a_probability_is_never_beyond_its_range(heads: tuple[float, ...], score: float) -> None:
    assert decoder()([floats(*heads)[None]], [FRAME])[0].score == score


def test_pixel_classes_may_be_the_last_axis() -> None:
    planes = np.zeros((1, 2, 3, 4), np.float32)
    planes[0, :, 1, 3] = 1
    (result,) = decoder(pixel_class_names=["background", "a", "b", "scratch"])([floats(0.7), planes], [FRAME])
    assert result.class_mask is not None
    assert result.class_mask[:, 2:4].tolist() == [[3, 3]] * 4
    assert result.class_mask.sum() == 3 * 8


def test_more_pixel_classes_than_a_byte_holds_are_refused() -> None:
    planes = np.zeros((1, 257, 2, 3), np.float32)
    with pytest.raises(DecodeError, match="at most 256 pixel classes, got 257"):
        decoder(pixel_class_names=["background", "scratch"])([floats(0.7), planes], [FRAME])


def test_a_mask_is_not_lost_where_maps_look_alike() -> None:
    outputs = [floats(0.7), *np.ones((2, 1, 1, 2, 3), np.float32)]
    with pytest.raises(DecodeError, match="expected one output as map, got 2"):
        decoder(pixel_class_names=["background", "scratch"])(outputs, [FRAME])
    assert decoder()(outputs, [FRAME])[0].class_mask is None
