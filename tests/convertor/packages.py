"""Packages that tests make: manifests as the world writes them, and ONNX files that only say what they are."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx import StringStringEntryProto, TensorProto, helper

Shape = Sequence[int | str | None] | None
YOLO_HEAD = {"output0": (1, 7, 21)}


def onnx_bytes(
    inputs: Mapping[str, Shape] | None = None,
    outputs: Mapping[str, Shape] | None = None,
    names: str | None = None,
    external: str | None = None,
    dtype: int = TensorProto.FLOAT,
) -> bytes:
    """A graph without nodes; the default is a YOLO head of three classes on 64 x 64 pixels."""
    made = [
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in tensors.items()]
        for tensors, kind in (
            ({"images": (1, 3, 64, 64)} if inputs is None else inputs, dtype),
            (YOLO_HEAD if outputs is None else outputs, TensorProto.FLOAT),
        )
    ]
    graph = helper.make_graph([], "graph", *made)
    if external is not None:
        weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
        weight.external_data.append(StringStringEntryProto(key="location", value=external))
        graph.initializer.append(weight)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if names is not None:
        model.metadata_props.append(StringStringEntryProto(key="names", value=names))
    return model.SerializeToString()


def yolo_manifest(**top: Any) -> dict[str, Any]:
    """A YOLO detector of three classes on 64 x 64 pixels."""
    return {
        "runtime": "onnx",
        "task": "object_detection",
        "detection": {"layout": "yolo", "num_classes": 3, "class_names": ["cat", "dog", "owl"]},
        "model_graph": {"stages": [{"type": "yolo_object_detection", "input_shape": [1, 3, 64, 64]}]},
        **top,
    }


def anomaly_manifest(**stage: Any) -> dict[str, Any]:
    """An anomaly model as real packages have it: no task, a stage with a code name, classes in model_graph."""
    return {
        "runtime": "onnx",
        "model_graph": {
            "stages": [{"type": "mochi", "threshold": 0.702, "input_shape": [1, 3, 64, 64], **stage}],
            "image_level_classes": {"names": ["anomaly", "normal"], "normal_ids": [1]},
            "pixel_level_classes": {"names": ["background", "scratch"], "normal_ids": [0]},
        },
        "dataset": {"image_width": 640, "image_height": 480},
    }


def write_zip(path: Path, manifest: Mapping[str, Any] | bytes | None, files: Mapping[str, bytes] | None = None) -> Path:
    """Write a package; without `files` it holds the default model.onnx."""
    with zipfile.ZipFile(path, "w") as archive:
        if manifest is not None:
            archive.writestr("manifest.json", manifest if isinstance(manifest, bytes) else json.dumps(manifest))
        for name, content in ({"model.onnx": onnx_bytes()} if files is None else files).items():
            archive.writestr(name, content)
    return path


def tree(root: Path) -> dict[str, bytes | None]:
    """Every path below a folder and what it holds; None for a folder."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
    }
