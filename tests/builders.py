"""Packages and ONNX graphs that tests make themselves."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Outputs = Mapping[str, np.ndarray[Any, Any]]


def constant_graph(outputs: Outputs, input_shape: Sequence[int | str] = (1, 3, 32, 32)) -> bytes:
    """Return an ONNX graph with an image input whose outputs are the given arrays, whatever the image holds."""
    nodes = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))
        for name, value in outputs.items()
    ]
    graph = helper.make_graph(
        nodes,
        "constant",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, list(input_shape))],
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in outputs.items()
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def write_package(path: Path, manifest: Mapping[str, Any], members: Mapping[str, bytes]) -> Path:
    """Write a package zip and return its path."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def detector_manifest(**detection: object) -> dict[str, Any]:
    """Return a manifest of a YOLO-layout ONNX detector with a 32 x 32 input."""
    return {
        "runtime": "onnx",
        "task": "object_detection",
        "detection": {"layout": "yolo", **detection},
        "model_graph": {"stages": [{"type": "yolo_object_detection", "input_shape": [1, 3, 32, 32]}]},
    }


def anomaly_manifest(pixel_classes: Sequence[str] = (), **stage: object) -> dict[str, Any]:
    """Return a manifest of an ONNX anomaly model with a 32 x 32 input."""
    return {
        "runtime": "onnx",
        "model_graph": {
            "stages": [{"type": "anomaly", "input_shape": [1, 3, 32, 32], **stage}],
            "pixel_level_classes": {"names": list(pixel_classes)},
        },
    }


def yolo_head(rows: Sequence[Sequence[float]], classes: int, anchors: int = 40) -> np.ndarray[Any, Any]:
    """Return float32 [1, 4 + classes, anchors]; each row is cx, cy, w, h, class id, score in network pixels."""
    head = np.zeros((1, 4 + classes, anchors), np.float32)
    for anchor, (cx, cy, width, height, class_id, score) in enumerate(rows):
        head[0, :4, anchor] = cx, cy, width, height
        head[0, 4 + int(class_id), anchor] = score
    return head
