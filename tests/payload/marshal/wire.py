"""Requests to marshal as base and a client make them, and what comes back, under the fake pb_utils."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

import triton_python_backend_utils as pb_utils

FULL_METADATA = {
    "capture_id": "cam1-0001",
    "sagemaker_edge_core_capture_data_disk_path": "/data/captures/line-a",
    "sagemaker_edge_core_device_fleet_name": "fleet-1",
}
ANOMALY_FOUND = [
    {"name": "background", "total_percentage_area": 0.9875, "hex_color": "#FFFFFF"},
    {"name": "scratch", "total_percentage_area": 0.0125, "hex_color": "#23A436"},
]
NOTHING_FOUND = [{"bounding_box": [], "class": "", "class_label": "", "confidence": 0.0, "no_objects": True}]


def json_bytes(value: object) -> np.ndarray:
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def make_request(
    image: np.ndarray,
    findings: object,
    client: object = FULL_METADATA,
    numbers: tuple[int, float, float] = (1, 0.875, 0.875),
    **replaced: np.ndarray | None,
) -> pb_utils.InferenceRequest:
    """Return a request as base and the client make it; `client` is METADATA, `numbers` output, confidence, score.

    A keyword replaces that input, or leaves it out when it is None.
    """
    inputs: dict[str, np.ndarray | None] = {
        "input": image,
        "inference_output": np.array([numbers[0]], np.uint8),
        "inference_mask": np.zeros((1, 1, 3), np.uint8),
        "inference_confidence": np.array([numbers[1]], np.float32),
        "inference_score": np.array([numbers[2]], np.float32),
        "inference_anomalies": json_bytes(findings),
        "metadata": json_bytes(client),
        **replaced,
    }
    return pb_utils.InferenceRequest(
        inputs=[pb_utils.Tensor(name, value) for name, value in inputs.items() if value is not None]
    )


def outputs_of(response: pb_utils.InferenceResponse) -> Mapping[str, np.ndarray]:
    error = response.error()
    assert error is None, error.message()
    return {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}


def error_of(response: pb_utils.InferenceResponse) -> str:
    error = response.error()
    assert error is not None
    assert response.output_tensors() == []
    assert "\n" not in error.message()
    return error.message()
