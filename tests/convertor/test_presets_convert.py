"""Presets, derived settings and a decoder's own keys, from the package to model.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from convertor.manifest import keys
from tests.convertor.conversions import model_json, prepared, refused
from tests.convertor.detectors import STAGE, detector, graph
from tests.convertor.packages import onnx_bytes, yolo_manifest


def test_a_preset_reaches_model_json(tmp_path: Path) -> None:
    one = prepared(tmp_path, detector({"preset": "yolox"}))
    written = model_json(one)
    assert one.warnings == ()
    assert written["preprocess"] == {
        "height": 64,
        "width": 64,
        "channels": 3,
        "layout": "NCHW",
        "preserve_aspect": True,
        "interpolation": "antialias",
        "image_range_scale": False,
        "mean": None,
        "std": None,
        "channel_order": "bgr",
        "letterbox": "top_left",
        "resize_rounding": "floor",
        "box_gain": "unrounded",
    }
    assert written["decode"]["compare"] == "greater"


def test_a_preset_that_normalises_needs_no_word_of_advice(tmp_path: Path) -> None:
    manifest = yolo_manifest(detection={"layout": "rf_detr", "num_classes": 3})
    manifest["model_graph"]["stages"] = [{"preset": "rf-detr"}]
    one = prepared(tmp_path, manifest, graph(1, 3, 64, 64, outputs={"dets": (1, 50, 4), "labels": (1, 50, 3)}))
    written = model_json(one)["preprocess"]
    assert (written["resize_dtype"], written["interpolation"]) == ("float32", "linear")
    assert written["mean"] == [0.485, 0.456, 0.406]
    assert not any("normalize" in line for line in one.warnings)


def test_an_unknown_preset_refuses_the_package(tmp_path: Path) -> None:
    (line,) = refused(tmp_path, detector({"preset": "ultralitics"}))
    assert line.startswith(f"{STAGE}.preset: expected a preset of yolo (ultralytics, ")
    (line,) = refused(tmp_path, detector({"preset": "rf-detr"}))
    assert line.endswith('got "rf-detr", a preset of rf_detr; correct it')


def test_an_unknown_detection_key_is_a_warning(tmp_path: Path) -> None:
    (line,) = prepared(tmp_path, detector({}, iou_treshold=0.4)).warnings
    assert line == "manifest.json: detection.iou_treshold: unknown key, ignored; did you mean iou_threshold?"


@pytest.mark.parametrize("task", [task for task in keys.TASKS if task not in ("anomaly", "object_detection")])
def test_tasks_of_the_other_profile_are_refused(tmp_path: Path, task: str) -> None:
    manifest: dict[str, Any] = {**yolo_manifest(), "task": task}
    assert refused(tmp_path, manifest, {"model.onnx": onnx_bytes()}) == [
        f"manifest.json: task: expected one of anomaly, object_detection in profile capture, got {task}, which only "
        "profile tensors serves; set serving.profile to tensors, or give --profile tensors"
    ]
