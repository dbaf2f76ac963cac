"""Requests to base and raw heads to answer with, and what comes back, under the fake pb_utils."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import triton_python_backend_utils as pb_utils

SPECS = {
    "output": ("uint8", (1,)),
    "output_confidence": ("float32", (1,)),
    "output_score": ("float32", (1,)),
}


def head(*rows: tuple[float, ...], classes: int = 2, anchors: int = 9) -> list[np.ndarray]:
    raw = np.zeros((1, 4 + classes, anchors), np.float32)
    for anchor, (cx, cy, width, height, class_id, score) in enumerate(rows):
        raw[0, :4, anchor] = cx, cy, width, height
        raw[0, 4 + int(class_id), anchor] = score
    return [raw]


def ask(model: Any, *images: np.ndarray | None) -> list[pb_utils.InferenceResponse]:
    requests = [
        pb_utils.InferenceRequest(inputs=[] if image is None else [pb_utils.Tensor("input", image)]) for image in images
    ]
    responses = model.execute(requests)
    assert len(responses) == len(requests)
    return responses


def tensors(response: pb_utils.InferenceResponse) -> Mapping[str, np.ndarray]:
    """Return a good response's tensors after comparing names, dtypes and the fixed shapes with the wire contract."""
    error = response.error()
    assert error is None, error.message()
    found = {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}
    assert list(found) == ["output", "output_confidence", "output_score", "mask", "anomalies"]
    for name, (dtype, shape) in SPECS.items():
        assert (name, str(found[name].dtype), found[name].shape) == (name, dtype, shape)
    assert found["mask"].dtype == found["anomalies"].dtype == np.uint8
    assert found["anomalies"].ndim == 1
    assert all(value.flags.c_contiguous for value in found.values())
    return found


def numbers(found: Mapping[str, np.ndarray]) -> tuple[int, float, float]:
    return int(found["output"][0]), float(found["output_confidence"][0]), float(found["output_score"][0])


def records(found: Mapping[str, np.ndarray]) -> Any:
    return json.loads(found["anomalies"].tobytes(), parse_constant=pytest.fail)


def error_of(response: pb_utils.InferenceResponse) -> str:
    error = response.error()
    assert error is not None
    assert response.output_tensors() == []
    assert "\n" not in error.message()
    return error.message()
