"""Class scores whose right answer was worked out by hand, and what is no class score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from postprocessors.classification.decode import ClassificationDecoder, create
from postprocessors.classification.support import DEFAULTS
from postprocessors.contract import DecodeError, DecoderConfig, DecodeValueError
from postprocessors.geometry import FrameGeometry
from postprocessors.results import Classification

FRAME = FrameGeometry((4, 6), (2, 3), (2, 3))
NAMES = ("ant", "bee", "cat", "dog")
Answer = tuple[list[int], list[float]]


def decoder(outputs: dict[str, Any] | None = None, **settings: Any) -> ClassificationDecoder:
    return create(DecoderConfig({**DEFAULTS, **settings}, NAMES, ("first", "second"), outputs or {}))


def answer(result: Classification) -> Answer:
    return result.class_ids.tolist(), [round(score, 3) for score in result.scores.tolist()]


def floats(*values: float) -> np.ndarray:
    return np.array([values], np.float32)


PROBABILITIES = floats(0.1, 0.2, 0.3, 0.4)
LOGITS = floats(np.log(0.1), np.log(0.2), np.log(0.3), np.log(0.4)) + 3
SIGMOID = {"scores": {"tensor": 0, "activation": "sigmoid"}}
FOUR: Answer = ([3, 2, 1, 0], [0.4, 0.3, 0.2, 0.1])


@pytest.mark.parametrize(
    ("tensor", "settings", "expected"),
    [
        pytest.param(PROBABILITIES, {}, FOUR, id="probabilities"),
        pytest.param(PROBABILITIES.reshape(1, 4, 1, 1), {}, FOUR, id="not-pooled"),
        pytest.param(PROBABILITIES.astype(np.float16), {}, FOUR, id="half-precision"),
        pytest.param(LOGITS, {"use_softmax": True}, FOUR, id="logits"),
        pytest.param(LOGITS, {"outputs": {"scores": {"tensor": 0, "activation": "softmax"}}}, FOUR, id="adapter"),
        pytest.param(
            floats(0, -100, 100, 0), {"outputs": SIGMOID, "top_k": 3}, ([2, 0, 3], [1, 0.5, 0.5]), id="sigmoid"
        ),
        pytest.param(floats(0.9, 0, 0.8, 0), {"multi_label": True, "top_k": 2}, ([0, 2], [0.9, 0.8]), id="multi-label"),
        pytest.param(PROBABILITIES, {"top_k": 2}, ([3, 2], [0.4, 0.3]), id="top-k"),
        pytest.param(floats(0.25, 0.25, 0.25, 0.25), {"top_k": 2}, ([0, 1], [0.25, 0.25]), id="ties-by-id"),
        pytest.param(PROBABILITIES, {"score_threshold": 0.3}, ([3, 2], [0.4, 0.3]), id="threshold"),
        pytest.param(
            floats(0.25, 0.25, 0.5, 0),
            {"score_threshold": 0.25, "compare": "greater"},
            ([2], [0.5]),
            id="greater-than-the-threshold",
        ),
        pytest.param(PROBABILITIES, {"classes": ["ant", 2]}, ([2, 0], [0.3, 0.1]), id="kept-classes"),
        pytest.param(PROBABILITIES, {"class_thresholds": {"dog": 0.5}}, ([2, 1, 0], [0.3, 0.2, 0.1]), id="per-class"),
        pytest.param(PROBABILITIES, {"score_threshold": 0.9}, ([], []), id="none-passes"),
        pytest.param(floats(1.0000002, 0, 0, 0), {"top_k": 1}, ([0], [1]), id="not-above-one"),
        pytest.param(floats(np.nan, 0.3, 0.7, 0), {}, ([2, 1, 3], [0.7, 0.3, 0]), id="B72-nan-probability"),
        pytest.param(
            floats(np.nan, 0, -np.inf, 0), {"use_softmax": True}, ([1, 3, 2], [0.5, 0.5, 0]), id="B72-nan-logit"
        ),
        pytest.param(floats(np.inf, 0, 3, 0), {"use_softmax": True, "top_k": 1}, ([0], [1]), id="B72-infinite-logit"),
    ],
)
def test_scores(tensor: np.ndarray, settings: dict[str, Any], expected: Answer) -> None:
    (result,) = decoder(**settings)([tensor], [FRAME])
    assert answer(result) == expected
    assert ((result.scores >= 0) & (result.scores <= 1)).all()
    assert result.labels == tuple(NAMES[class_id] for class_id in expected[0])
    assert (result.class_ids.dtype, result.scores.dtype) == (np.int32, np.float32)


def test_one_result_per_image_and_names_for_all() -> None:
    decode = create(DecoderConfig({**DEFAULTS, "top_k": 1}, ("ant",), ("",)))
    results = decode([np.array([[0.9, 0.1], [0.2, 0.8]], np.float32)], [FRAME, FRAME])
    assert [result.labels for result in results] == [("ant",), ("class_1",)]


@pytest.mark.parametrize(
    ("tensor", "settings", "expected"),
    [
        pytest.param(LOGITS, {}, r"got 0.697.* to 2.084.*; set detection.use_softmax to true if", id="logits"),
        pytest.param(
            floats(0.9, 0, 0.8, 0), {}, r"got 0 to 0.9, 1.7 in total; .* multi_label if several", id="multi-label"
        ),
        pytest.param(LOGITS, {"multi_label": True}, r"0 to 1, got .*activation to sigmoid", id="multi-label-logits"),
        pytest.param(floats(-0.5, 0.3, 0, 0), {"multi_label": True}, "got -0.5 to 0.3", id="below-zero"),
        pytest.param(floats(*[np.nan] * 4), {}, "expected finite scores, got none", id="B72-all-nan"),
        pytest.param(floats(*[np.nan] * 4), {"use_softmax": True}, "expected finite scores", id="B72-all-nan-logits"),
    ],
)
def test_numbers_that_are_refused(tensor: np.ndarray, settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(DecodeValueError, match=expected):
        decoder(**settings)([tensor], [FRAME])


@pytest.mark.parametrize(
    ("outputs", "settings", "expected"),
    [
        pytest.param([], {}, "got none", id="no-output"),
        pytest.param([PROBABILITIES[None]], {}, r"got \[1, 1, 4\]; name it", id="rank-3"),
        pytest.param([PROBABILITIES.astype(np.int64)], {}, r"got \[1, 4\]", id="integers"),
        pytest.param([PROBABILITIES, LOGITS], {}, r"got \[1, 4\], \[1, 4\]; name it", id="two-heads"),
        pytest.param([PROBABILITIES], {"num_classes": 3}, r"expected 3 class scores, got \[1, 4\]", id="other-count"),
        pytest.param([np.zeros((1, 0), np.float32)], {}, r"got \[1, 0\]", id="no-class"),
        pytest.param([np.repeat(PROBABILITIES, 2, 0)], {}, r"expected 1 images, got \[2, 4\]", id="other-batch"),
    ],
)
def test_shapes_that_are_refused(outputs: list[np.ndarray], settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(DecodeError, match=expected) as caught:
        decoder(**settings)(outputs, [FRAME])
    assert not isinstance(caught.value, DecodeValueError)


def test_the_manifest_says_which_of_two_heads() -> None:
    decode = decoder({"scores": {"tensor": "second"}}, top_k=1)
    assert answer(decode([LOGITS, PROBABILITIES], [FRAME])[0]) == ([3], [0.4])
