"""The capture profile's tensors: every name once; marshal's and the ensemble's maps follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Dims = Sequence[int]
ANY_IMAGE: Dims = (-1, -1, -1)
PROFILE = "capture"
TASKS = frozenset({"anomaly", "object_detection"})
METADATA = "METADATA"


@dataclass(frozen=True)
class Tensor:
    """One input or output of a config.pbtxt."""

    name: str
    data_type: str
    dims: list[int]


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
    return {
        "name": f"base_{name}",
        "inputs": [_image("input", image_dims)],
        "outputs": [
            _flag("output"),
            _number("output_confidence"),
            _number("output_score"),
            _image("mask", image_dims),
            _bytes("anomalies"),
        ],
        "instances": instances,
        "kind": kind,
    }


def marshal_config(name: str, image_dims: Dims, instances: int) -> dict[str, Any]:
    """Return what templates/marshal/config.pbtxt.j2 needs."""
    return {
        "name": f"marshal_{name}",
        "inputs": [
            _image("input", image_dims),
            _flag("inference_output"),
            _image("inference_mask", image_dims),
            _number("inference_confidence"),
            _number("inference_score"),
            _bytes("inference_anomalies"),
            _bytes("metadata"),
        ],
        "outputs": [
            _bytes("output"),
            _bytes("mask"),
            _bytes("overlay"),
            _flag("output_anomalous"),
            _number("output_confidence"),
        ],
        "instances": instances,
        "kind": "KIND_CPU",
    }


def ensemble_config(name: str, image_dims: Dims, version: int) -> dict[str, Any]:
    """Return what templates/ensemble/config.pbtxt.j2 needs; both steps are pinned to `version`."""
    inner = list(_BASE_TO_MARSHAL.values())
    return {
        "name": name,
        "inputs": [_image("input", image_dims), _bytes(METADATA)],
        "outputs": [
            _bytes("output_capture"),
            _bytes("output_mask"),
            _bytes("output_overlay"),
            _flag("output_anomalous"),
            _number("output_confidence"),
        ],
        "steps": [
            {
                "model": f"base_{name}",
                "version": version,
                "input_map": {"input": "input"},
                "output_map": _BASE_TO_MARSHAL,
            },
            {
                "model": f"marshal_{name}",
                "version": version,
                "input_map": {"input": "input", **{tensor: tensor for tensor in inner}, "metadata": METADATA},
                "output_map": _MARSHAL_TO_ENSEMBLE,
            },
        ],
    }
