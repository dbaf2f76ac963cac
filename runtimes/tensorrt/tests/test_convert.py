"""Packages with plans, through the tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tritonclient", reason="needs the tool")

from runtimes.tensorrt.tests.fakes import plan_bytes
from runtimes.tensorrt.tests.test_refusals import with_metadata
from runtimes.tensorrt.tests.test_support import EXPORTED
from tests.convertor.conversions import model_json, prepared, refused


def manifest(**top: Any) -> dict[str, Any]:
    """A detector that says of itself only what has no default."""
    stage = {"type": "yolo_object_detection"}
    detection = {"layout": "yolo", "num_classes": 2}
    return {
        "runtime": "tensorrt",
        "task": "object_detection",
        "detection": detection,
        "model_graph": {"stages": [stage]},
        **top,
    }


def test_the_size_in_the_metadata_is_the_network_s(tmp_path: Path) -> None:
    plan = with_metadata(plan_bytes(), {**EXPORTED, "imgsz": [480, 640]})
    one = prepared(tmp_path, manifest(), {"model.plan": plan})
    written = model_json(one)
    assert (written["runtime"], written["artifact"]) == ("tensorrt", "artifact/model.plan")
    assert (written["preprocess"]["height"], written["preprocess"]["width"]) == (480, 640)
    assert one.plan.requirements[-2:] == ("tensorrt>=10", "cuda-bindings>=12.9")


def test_a_plan_that_says_nothing_takes_the_manifest_s_size(tmp_path: Path) -> None:
    said = manifest(model_graph={"stages": [{"type": "yolo_object_detection", "input_shape": [1, 3, 64, 96]}]})
    written = model_json(prepared(tmp_path, said, {"model.plan": plan_bytes()}))
    assert (written["preprocess"]["height"], written["preprocess"]["width"]) == (64, 96)


def test_everything_that_is_wrong_at_once(tmp_path: Path) -> None:
    assert refused(tmp_path, manifest(device="cpu"), {"model.plan": b"\x08\x08\x12\x07pytorch" + b"\0" * 30}) == [
        "model.plan: expected a plan of TensorRT, got an ONNX model, which runtime onnx runs as it is; "
        "build one on the target with trtexec or tensorrt's Builder",
        "manifest.json: model_graph.stages[0].input_shape: expected the network's size, which the graph leaves open, "
        "got nothing; add input_shape [1, 3, height, width]",
        "manifest.json: device: expected auto, gpu or tensorrt, got cpu; runtime tensorrt needs a GPU: "
        "set it to auto, or pack the ONNX model with runtime onnx",
    ]
