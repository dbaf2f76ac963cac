"""The capture profile's tensors: every name once; marshal's and the ensemble's maps follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from convertor.wire import Tensor, ensemble_step, ensemble_values, step_values

Dims = Sequence[int]
ANY_IMAGE: Dims = (-1, -1, -1)
PROFILE = "capture"
TASKS = frozenset({"anomaly", "object_detection"})
METADATA = "METADATA"


def _image(name: str, dims: Dims) -> Tensor:
    return Tensor(name, "TYPE_UINT8", list(dims))


def _bytes(name: str) -> Tensor:
    return Tensor(name, "TYPE_UINT8", [-1])


def _flag(name: str) -> Tensor:
    return Tensor(name, "TYPE_UINT8", [1])


def _number(name: str) -> Tensor:
    return Tensor(name, "TYPE_FP32", [1])


# base's output -> marshal's input, in base's order.
_BASE_TO_MARSHAL = {
    "output": "inference_output",
    "output_confidence": "inference_confidence",
    "output_score": "inference_score",
    "mask": "inference_mask",
    "anomalies": "inference_anomalies",
}
# marshal's output -> the ensemble's.
_MARSHAL_TO_ENSEMBLE = {
    "output": "output_capture",
    "mask": "output_mask",
    "overlay": "output_overlay",
    "output_anomalous": "output_anomalous",
    "output_confidence": "output_confidence",
}


def base_config(name: str, image_dims: Dims, instances: int, kind: str) -> dict[str, Any]:
    """Return what templates/base/config.pbtxt.j2 needs."""
    outputs = [
        _flag("output"),
        _number("output_confidence"),
        _number("output_score"),
        _image("mask", image_dims),
        _bytes("anomalies"),
    ]
    return step_values(f"base_{name}", [_image("input", image_dims)], outputs, instances, kind)


def marshal_config(name: str, image_dims: Dims, instances: int) -> dict[str, Any]:
    """Return what templates/marshal/config.pbtxt.j2 needs."""
    inputs = [
        _image("input", image_dims),
        _flag("inference_output"),
        _image("inference_mask", image_dims),
        _number("inference_confidence"),
        _number("inference_score"),
        _bytes("inference_anomalies"),
        _bytes("metadata"),
    ]
    outputs = [
        _bytes("output"),
        _bytes("mask"),
        _bytes("overlay"),
        _flag("output_anomalous"),
        _number("output_confidence"),
    ]
    return step_values(f"marshal_{name}", inputs, outputs, instances)


def ensemble_config(name: str, image_dims: Dims, version: int) -> dict[str, Any]:
    """Return what templates/ensemble/config.pbtxt.j2 needs; both steps are pinned to `version`."""
    inner = {tensor: tensor for tensor in _BASE_TO_MARSHAL.values()}
    outputs = [
        _bytes("output_capture"),
        _bytes("output_mask"),
        _bytes("output_overlay"),
        _flag("output_anomalous"),
        _number("output_confidence"),
    ]
    steps = [
        ensemble_step(f"base_{name}", version, {"input": "input"}, _BASE_TO_MARSHAL),
        ensemble_step(
            f"marshal_{name}", version, {"input": "input", **inner, "metadata": METADATA}, _MARSHAL_TO_ENSEMBLE
        ),
    ]
    return ensemble_values(name, [_image("input", image_dims), _bytes(METADATA)], outputs, steps)
