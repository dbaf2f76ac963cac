"""Segmentation heads whose right class map was worked out by hand, and what is no such head."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from postprocessors.contract import DecodeError, DecoderConfig, DecodeValueError
from postprocessors.geometry import FrameGeometry
from postprocessors.semantic_segmentation.decode import SemanticSegmentationDecoder, create
from postprocessors.semantic_segmentation.support import DEFAULTS

FRAME = FrameGeometry((2, 3), (2, 3), (2, 3))
NAMES = ("road", "tree", "sky")
EXPECTED = [[0, 2, 1], [0, 0, 1]]
INDICES = np.array([EXPECTED], np.int64)
SCORES = np.moveaxis(np.eye(3, dtype=np.float32)[EXPECTED], -1, 0)[None]
PLANE = np.array([[[[0.1, 0.5, 0.9], [0.2, 0.4999, 1.0]]]], np.float32)
OBJECT = [[0, 1, 1], [0, 0, 1]]
SIGMOID = {"scores": {"tensor": 0, "activation": "sigmoid"}}


def decoder(
    outputs: dict[str, Any] | None = None,
    names: tuple[str, ...] = NAMES,
    output_names: tuple[str, ...] = ("first", "second"),
    **settings: Any,
) -> SemanticSegmentationDecoder:
    return create(DecoderConfig({**DEFAULTS, **settings}, names, output_names, outputs or {}))


@pytest.mark.parametrize(
    ("tensor", "settings", "expected"),
    [
        pytest.param(SCORES, {}, EXPECTED, id="scores"),
        pytest.param(SCORES * 7 - 3, {"num_classes": 3}, EXPECTED, id="logits"),
        pytest.param(SCORES.astype(np.float16), {}, EXPECTED, id="half-precision"),
        pytest.param(np.moveaxis(SCORES, 1, -1), {"channels_first": False}, EXPECTED, id="channels-last"),
        pytest.param(np.moveaxis(SCORES, 1, -1), {"num_classes": 3}, EXPECTED, id="channels-last-by-their-count"),
        pytest.param(INDICES, {}, EXPECTED, id="indices"),
        pytest.param(INDICES[:, None].astype(np.uint8), {"num_classes": 3}, EXPECTED, id="indices-with-an-axis"),
        pytest.param(INDICES[..., None], {"num_classes": 3}, EXPECTED, id="indices-with-a-last-axis"),
        pytest.param(
            INDICES.astype(np.float32), {"outputs": {"classes": {"tensor": 0}}}, EXPECTED, id="indices-as-floats"
        ),
        pytest.param(
            SCORES, {"outputs": {"scores": {"tensor": 0, "activation": "argmax"}}}, EXPECTED, id="adapter-argmax"
        ),
        pytest.param(
            SCORES, {"outputs": {"scores": {"tensor": 0, "activation": "softmax"}}}, EXPECTED, id="adapter-softmax"
        ),
        pytest.param(PLANE, {}, OBJECT, id="one-plane"),
        pytest.param(PLANE[0], {}, OBJECT, id="one-plane-without-its-axis"),
        pytest.param(PLANE, {"compare": "greater"}, [[0, 0, 1], [0, 0, 1]], id="greater-than-the-threshold"),
        pytest.param(PLANE, {"score_threshold": 0.95}, [[0, 0, 0], [0, 0, 1]], id="threshold"),
        pytest.param(PLANE * 20 - 10, {"outputs": SIGMOID}, OBJECT, id="one-plane-of-logits"),
        pytest.param(
            PLANE * 20 - 10, {"outputs": SIGMOID, "score_threshold": 0.9999}, [[0, 0, 0], [0, 0, 1]], id="logit"
        ),
        pytest.param(PLANE * 20 - 10, {"outputs": SIGMOID, "score_threshold": 0}, [[1] * 3] * 2, id="threshold-0"),
        pytest.param(PLANE * 20 - 10, {"outputs": SIGMOID, "score_threshold": 1}, [[0] * 3] * 2, id="threshold-1"),
        pytest.param(np.array([OBJECT], bool), {"num_classes": 2}, OBJECT, id="mask"),
    ],
)
def test_class_maps(tensor: np.ndarray, settings: dict[str, Any], expected: list[list[int]]) -> None:
    (result,) = decoder(**settings)([tensor], [FRAME])
    assert result.classes.tolist() == expected
    assert result.classes.dtype == np.uint8


@pytest.mark.parametrize(
    ("tensor", "names", "settings", "expected"),
    [
        pytest.param(SCORES, ("road",), {}, ("road", "class_1", "class_2"), id="fewer-names"),
        pytest.param(SCORES, (), {}, ("class_0", "class_1", "class_2"), id="none"),
        pytest.param(INDICES, NAMES, {}, NAMES, id="indices"),
        pytest.param(INDICES, NAMES[:1], {"num_classes": 4}, ("road", "class_1", "class_2", "class_3"), id="counted"),
        pytest.param(PLANE, ("crack",), {}, ("background", "crack"), id="one-plane-one-name"),
        pytest.param(INDICES // 2, ("crack",), {"num_classes": 1}, ("background", "crack"), id="mask-one-name"),
        pytest.param(PLANE, ("sound", "crack"), {}, ("sound", "crack"), id="one-plane-two-names"),
    ],
)
def test_names(tensor: np.ndarray, names: tuple[str, ...], settings: dict[str, Any], expected: tuple[str, ...]) -> None:
    (result,) = decoder(names=names, **settings)([tensor], [FRAME])
    assert result.class_names == expected


@pytest.mark.parametrize("tensor", [SCORES, INDICES], ids=["scores", "indices"])
def test_b54_the_map_has_the_sources_height_and_width(tensor: np.ndarray) -> None:
    (result,) = decoder()([tensor], [FrameGeometry((6, 3), (2, 3), (2, 3))])
    assert result.classes[::5].tolist() == EXPECTED
    assert result.classes.shape == (6, 3)


@pytest.mark.parametrize("tensor", [SCORES, INDICES], ids=["scores", "indices"])
def test_letterbox_padding_is_no_part_of_the_map(tensor: np.ndarray) -> None:
    # The network's input is 4 x 6, the image its first row of cells and a half.
    (result,) = decoder()([tensor], [FrameGeometry((1, 3), (2, 6), (4, 6), (0, 0))])
    assert result.classes.tolist() == EXPECTED[:1]
    (result,) = decoder()([tensor], [FrameGeometry((1, 3), (2, 6), (4, 6), (2, 0))])
    assert result.classes.tolist() == EXPECTED[1:]


def test_one_map_per_image_at_its_own_size() -> None:
    frames = [FRAME, FrameGeometry((4, 6), (2, 3), (2, 3))]
    first, second = decoder()([np.concatenate([INDICES, 2 - INDICES])], frames)
    assert first.classes.tolist() == EXPECTED
    assert second.classes[::2, ::2].tolist() == (2 - INDICES[0]).tolist()


def test_torchvisions_second_head_is_not_read() -> None:
    decode = decoder(output_names=("out", "aux"))
    assert decode([SCORES, 1 - SCORES], [FRAME])[0].classes.tolist() == EXPECTED


CROPPED = FrameGeometry((2, 9), (2, 9), (2, 3), (0, -3))


@pytest.mark.parametrize(
    ("outputs", "settings", "frame", "expected"),
    [
        pytest.param([], {}, FRAME, "got none", id="no-output"),
        pytest.param([SCORES[0, 0]], {}, FRAME, r"got \[2, 3\]; name it", id="no-batch"),
        pytest.param([SCORES, SCORES], {}, FRAME, r"got \[1, 3, 2, 3\], \[1, 3, 2, 3\]; name it", id="two-heads"),
        pytest.param([SCORES], {"num_classes": 4}, FRAME, r"expected 4 classes, got 3 in \[1, 3, 2, 3\]", id="count"),
        pytest.param([np.zeros((1, 257, 1, 2), np.float32)], {}, FRAME, "at most 256 classes, got 257", id="too-many"),
        pytest.param([np.repeat(SCORES, 2, 0)], {}, FRAME, "expected 1 images, got", id="other-batch"),
        pytest.param([INDICES[:, [0, 0]].repeat(2, 0)[None]], {}, FRAME, r"class indices \[B, H, W\] or", id="planes"),
        pytest.param([np.zeros((1, 3, 0, 2), np.float32)], {}, FRAME, "expected one output", id="empty"),
        pytest.param([SCORES], {}, CROPPED, "expected the whole image", id="cropped"),
    ],
)
def test_shapes_that_are_refused(
    outputs: list[np.ndarray], settings: dict[str, Any], frame: FrameGeometry, expected: str
) -> None:
    with pytest.raises(DecodeError, match=expected) as caught:
        decoder(**settings)(outputs, [frame])
    assert not isinstance(caught.value, DecodeValueError)
    assert "\n" not in str(caught.value)


FLOAT_INDICES = {"classes": {"tensor": 0}}


@pytest.mark.parametrize(
    ("tensor", "settings", "expected"),
    [
        pytest.param(PLANE * 9 - 4, {}, "expected probabilities in one plane .*activation to sigmoid", id="logits"),
        pytest.param(INDICES.astype(np.float32), {}, "outputs.classes if they are class indices", id="float-indices"),
        pytest.param(PLANE[0], {"outputs": FLOAT_INDICES}, "expected whole numbers", id="no-indices"),
        pytest.param(PLANE * np.nan, {"outputs": FLOAT_INDICES}, "expected whole numbers", id="B72-nan-index"),
        pytest.param(INDICES - 1, {}, "from 0 to 255, got -1 to 1", id="negative"),
        pytest.param(INDICES + 254, {}, "from 0 to 255, got 254 to 256", id="no-byte"),
        pytest.param(INDICES, {"num_classes": 2}, "from 0 to 1, got 0 to 2", id="past-the-last-class"),
        pytest.param(SCORES * np.nan, {}, "expected a score for every pixel", id="B72-all-nan"),
        pytest.param(PLANE * np.nan, {}, "expected a score for every pixel", id="B72-nan-plane"),
    ],
)
def test_numbers_that_are_refused(tensor: np.ndarray, settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(DecodeValueError, match=expected):
        decoder(**settings)([tensor], [FRAME])


def test_b72_one_class_that_is_not_a_number_disturbs_no_other() -> None:
    broken = SCORES.copy()
    broken[0, 0] = np.nan
    assert decoder()([broken], [FRAME])[0].classes.tolist() == [[1, 2, 1], [1, 1, 1]]


def test_without_a_count_a_square_in_front_may_be_the_picture() -> None:
    tensor = np.random.default_rng(0).random((1, 32, 32, 3), np.float32)
    with pytest.raises(DecodeError, match=r"expected detection\.num_classes .* got nothing for \[1, 32, 32, 3\]"):
        decoder()([tensor], [FRAME])
    last = decoder(num_classes=3)([tensor], [FRAME])[0].classes
    assert np.array_equal(decoder(channels_first=False)([tensor], [FRAME])[0].classes, last)
    assert decoder(channels_first=True)([tensor], [FRAME])[0].classes.max() > 2
