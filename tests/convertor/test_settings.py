"""What model.json tells the payload: defaults, precedence, and what manifest and graph say differently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto

from convertor import payload
from convertor.families import find_families, owner_of
from tests.convertor.conversions import model_json, prepared
from tests.convertor.detectors import NCHW, STAGE, detector, graph
from tests.convertor.packages import anomaly_manifest, onnx_bytes, yolo_manifest


def test_defaults_of_a_detector(tmp_path: Path) -> None:
    manifest = {"runtime": "onnx", "task": "object_detection", "detection": {"layout": "yolo", "num_classes": 3}}
    written = model_json(prepared(tmp_path, manifest, graph(*NCHW)))
    assert written["preprocess"] == {
        "height": 64,
        "width": 64,
        "channels": 3,
        "layout": "NCHW",
        "preserve_aspect": False,
        "interpolation": "area",
        "image_range_scale": True,
        "mean": None,
        "std": None,
        "channel_order": "rgb",
    }
    yolo = owner_of("yolo", find_families(payload.POSTPROCESSORS))
    assert yolo is not None
    assert written["decode"] == {**yolo.defaults, "num_classes": 3}


def test_defaults_of_a_detr(tmp_path: Path) -> None:
    manifest = {"runtime": "onnx", "task": "object_detection", "detection": {"layout": "rf_detr"}}
    files = graph(*NCHW, outputs={"dets": (1, 50, 4), "labels": (1, 50, 4)})
    decode = model_json(prepared(tmp_path, manifest, files))["decode"]
    assert (decode["score_threshold"], decode["top_k"], decode["max_det"]) == (0.5, 300, 300)
    assert (decode["use_softmax"], decode["background_class"]) == (False, None)


def test_defaults_of_an_anomaly_model(tmp_path: Path) -> None:
    written = model_json(prepared(tmp_path, {"runtime": "onnx"}, graph(*NCHW)))
    assert written["decode"]["threshold"] == 0.5
    assert (written["task"], written["family"], written["device"]) == ("anomaly", "anomaly", "auto")


def test_an_anomaly_model_reads_only_the_threshold_of_its_stage(tmp_path: Path) -> None:
    manifest = {**anomaly_manifest(), "detection": {"score_threshold": 0.9}}
    assert model_json(prepared(tmp_path, manifest))["decode"] == {
        "threshold": 0.702,
        "pixel_threshold": None,
        "score_range": None,
        "class_normal_ids": [1],
        "pixel_class_names": ["background", "scratch"],
    }


@pytest.mark.parametrize(
    ("stage", "detection", "expected"),
    [
        pytest.param({}, {}, 0.25, id="default"),
        pytest.param({"threshold": 0.4}, {}, 0.4, id="the stage's threshold"),
        pytest.param({"threshold": 0.4}, {"score_threshold": 0.6}, 0.6, id="detection wins over it"),
        pytest.param({"score_threshold": 0.7}, {"score_threshold": 0.6}, 0.7, id="a stage that says otherwise"),
        pytest.param({"threshold": 0}, {}, 0, id="zero is a threshold"),
    ],
)
def test_score_threshold(tmp_path: Path, stage: dict[str, Any], detection: dict[str, Any], expected: float) -> None:
    assert model_json(prepared(tmp_path, detector(stage, **detection)))["decode"]["score_threshold"] == expected


def test_b59_normalise_means_imagenet_unless_told_otherwise(tmp_path: Path) -> None:
    written = model_json(prepared(tmp_path, detector({"normalize": True})))["preprocess"]
    assert (written["mean"], written["std"]) == ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])


def test_mean_and_std_without_normalise_are_not_used_but_named(tmp_path: Path) -> None:
    one = prepared(tmp_path, detector({"mean": [0.5] * 3, "std": [0.5] * 3}))
    assert model_json(one)["preprocess"]["mean"] is None
    (line,) = one.warnings
    assert line.startswith(f"{STAGE}.mean and std: not used, because normalize is not true")


def test_b61_pixels_as_they_are(tmp_path: Path) -> None:
    written = model_json(prepared(tmp_path, detector({"image_range_scale": False})))["preprocess"]
    assert (written["image_range_scale"], written["mean"]) == (False, None)


@pytest.mark.parametrize("dtype", [TensorProto.UINT8, TensorProto.INT32])
def test_b71_an_integer_graph_takes_pixels_as_they_are(tmp_path: Path, dtype: int) -> None:
    one = prepared(tmp_path, detector({"image_range_scale": True}), graph(*NCHW, dtype=dtype))
    assert model_json(one)["preprocess"]["image_range_scale"] is False
    assert "the graph takes integers" in one.warnings[0]


@pytest.mark.parametrize(
    ("normalize", "warned"),
    [
        pytest.param({"normalize": False}, True, id="false"),
        pytest.param({}, True, id="absent"),
        pytest.param({"normalize": True}, False, id="true"),
    ],
)
def test_b59_a_detr_without_normalisation_gets_a_word(tmp_path: Path, normalize: dict[str, Any], warned: bool) -> None:
    manifest = yolo_manifest(detection={"layout": "rf_detr", "num_classes": 3})
    manifest["model_graph"]["stages"] = [{"type": "rf_detr_object_detection", **normalize}]
    files = graph(*NCHW, outputs={"dets": (1, 50, 4), "labels": (1, 50, 3)})
    warnings = prepared(tmp_path, manifest, files).warnings
    assert any("normalize" in line and "ImageNet" in line for line in warnings) == warned


def test_a_head_of_unknown_rank_is_left_to_the_server(tmp_path: Path) -> None:
    files = {"model.onnx": onnx_bytes(outputs={"output0": None})}
    assert prepared(tmp_path, yolo_manifest(), files).warnings == ()


def further(stage: dict[str, Any], tmp_path: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What model.json says of resizing beside what it always says, and warnings."""
    one = prepared(tmp_path, detector(stage))
    always = model_json(prepared(tmp_path, detector({})))["preprocess"]
    return {
        key: value for key, value in model_json(one)["preprocess"].items() if always.get(key) != value
    }, one.warnings


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        pytest.param({"preserve_aspect": True}, {"preserve_aspect": True}, id="the old word"),
        pytest.param({"resize": "letterbox"}, {"preserve_aspect": True}, id="the new word"),
        pytest.param({"resize": "stretch"}, {}, id="stretch"),
        pytest.param({"resize": "shortest_edge_crop"}, {"crop": True}, id="crop"),
        pytest.param(
            {"resize": "letterbox", "letterbox": "top_left", "resize_rounding": "floor", "box_gain": "unrounded"},
            {"preserve_aspect": True, "letterbox": "top_left", "resize_rounding": "floor", "box_gain": "unrounded"},
            id="top left",
        ),
        pytest.param(
            {"resize": "letterbox", "letterbox_margin": 4, "pad_value": 128, "interpolation": "antialias"},
            {"preserve_aspect": True, "letterbox_margin": 4, "pad_value": 128, "interpolation": "antialias"},
            id="margin and padding",
        ),
        pytest.param({"resize_dtype": "float32"}, {"resize_dtype": "float32"}, id="floats"),
        pytest.param(
            {"letterbox": "centre", "letterbox_margin": 0, "pad_value": 114, "resize_dtype": "uint8"}, {}, id="defaults"
        ),
    ],
)
def test_ways_of_resizing(tmp_path: Path, stage: dict[str, Any], expected: dict[str, Any]) -> None:
    assert further(stage, tmp_path) == (expected, ())


def test_resize_wins_over_preserve_aspect(tmp_path: Path) -> None:
    written, (line,) = further({"resize": "stretch", "preserve_aspect": True}, tmp_path)
    assert written == {}
    assert line == f'{STAGE}.preserve_aspect says true, resize "stretch"; resize wins'


def test_what_belongs_to_a_letterbox_is_not_used_without_one(tmp_path: Path) -> None:
    written, (line,) = further({"letterbox": "top_left", "pad_value": 0}, tmp_path)
    assert written == {}
    assert line.startswith(f"{STAGE}.letterbox and pad_value: not used, because the image is not letterboxed; ")
