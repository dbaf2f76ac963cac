"""The output adapter and its activations."""

from __future__ import annotations

import math

import numpy as np
import pytest

from postprocessors.adapter import OutputAdapter, sigmoid, softmax

RAW = [np.array([[1.0, -2.0, 3.0]], np.float32), np.zeros((1, 3, 2, 2), np.float32)]
RAW[1][0, 1] = 5.0


def softmax_by_hand(row: list[float]) -> list[float]:
    total = sum(math.exp(value) for value in row)
    return [math.exp(value) / total for value in row]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_sigmoid(dtype: type) -> None:
    values = sigmoid(np.array([-np.inf, -65504, -1, 0, 1, 65504, np.inf], dtype))
    assert values.dtype == np.float32
    half = 1 / (1 + math.exp(1))
    assert values.tolist() == pytest.approx([0, 0, half, 0.5, 1 - half, 1, 1], abs=1e-7)
    assert np.isnan(sigmoid(np.array([np.nan], dtype)))


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        pytest.param([1.0, 2.0, 3.0], softmax_by_hand([1, 2, 3]), id="plain"),
        pytest.param([1000.0, 0.0, 0.0], [1, 0, 0], id="B18-large"),
        pytest.param([np.inf, 0.0, np.inf], [0.5, 0, 0.5], id="infinities"),
        pytest.param([np.nan, 0.0, 0.0], [0, 0.5, 0.5], id="nan"),
        pytest.param([np.nan, -np.inf, np.nan], [0, 0, 0], id="nothing-finite"),
        pytest.param([3.4e38, -3.4e38, 0.0], [1, 0, 0], id="float-limits"),
    ],
)
def test_softmax(row: list[float], expected: list[float]) -> None:
    assert softmax(np.array([row], np.float32))[0].tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        pytest.param("none", [1, -2, 3], id="none"),
        pytest.param("sigmoid", [1 / (1 + math.exp(-v)) for v in (1, -2, 3)], id="sigmoid"),
        pytest.param("softmax", softmax_by_hand([1, -2, 3]), id="softmax"),
    ],
)
def test_activation(activation: str, expected: list[float]) -> None:
    adapter = OutputAdapter({"classes": {"tensor": 0, "activation": activation}}, ("a", "b"))
    found = adapter.get("classes", RAW)
    assert found is not None
    assert found[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_argmax_and_softmax_of_maps_are_over_channels() -> None:
    adapter = OutputAdapter(
        {"pixel_classes": {"tensor": "b", "activation": "argmax"}, "map": {"tensor": "b", "activation": "softmax"}},
        ("a", "b"),
    )
    classes, shares = adapter.get("pixel_classes", RAW), adapter.get("map", RAW)
    assert classes is not None
    assert classes.tolist() == [[[1, 1], [1, 1]]]
    assert shares is not None
    assert shares.sum(axis=1).tolist() == [[[pytest.approx(1)] * 2] * 2]


def test_a_meaning_that_is_not_named() -> None:
    adapter = OutputAdapter({}, ("a",))
    assert not adapter
    assert adapter.get("boxes", RAW) is None
