"""Packages of detectors that say one thing more or less."""

from __future__ import annotations

from typing import Any

from tests.convertor.packages import onnx_bytes, yolo_manifest

STAGE = "manifest.json: model_graph.stages[0]"
NCHW = (1, 3, 64, 64)


def detector(stage: dict[str, Any], **detection: Any) -> dict[str, Any]:
    manifest = yolo_manifest()
    manifest["detection"].update(detection)
    manifest["model_graph"]["stages"] = [{"type": "yolo_object_detection", **stage}]
    return manifest


def graph(*shape: int | str | None, **more: Any) -> dict[str, bytes]:
    return {"model.onnx": onnx_bytes({"images": shape}, **more)}
