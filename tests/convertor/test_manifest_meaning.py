"""manifest.json: every spelling that is out there, and what it comes to."""

from __future__ import annotations

from typing import Any

import pytest

from tests.convertor.manifests import parse
from tests.convertor.packages import anomaly_manifest


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        pytest.param({"class_names": ["a", "b"]}, ("a", "b"), id="list"),
        pytest.param({"class_names": {"1": "b", "0": "a"}}, ("a", "b"), id="by id, any order"),
        pytest.param({"class_names": {"2": "c"}}, ("", "", "c"), id="by id, with gaps"),
        pytest.param(
            {"class_names": ["模型", "né", "👩\u200d🔧", "no\u00a0break"]},
            ("模型", "né", "👩\u200d🔧", "no\u00a0break"),
            id="any language",
        ),
        pytest.param({"dataset": {"class_names": ["d"]}}, ("d",), id="dataset"),
        pytest.param({"class_names": ["t"], "dataset": {"class_names": ["d"]}}, ("t",), id="top before dataset"),
        pytest.param({"class_names": ["t"], "detection": {"class_names": ["x"]}}, ("x",), id="detection before top"),
        pytest.param({"class_names": ["t"], "detection": {"class_names": []}}, ("t",), id="an empty list says nothing"),
        pytest.param({"class_names": ["t"], "detection": {"class_names": {}}}, ("t",), id="an empty object neither"),
        pytest.param(
            {"detection": {"class_names": ["x"]}, "model_graph": {"stages": [{"class_names": ["s"]}]}},
            ("s",),
            id="stage before detection",
        ),
    ],
)
def test_class_names(manifest: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert parse({"task": "object_detection", **manifest}).class_names == expected


def test_detection_is_merged_into_a_stage_that_does_not_say_otherwise() -> None:
    manifest = parse(
        {
            "task": "object_detection",
            "detection": {"layout": "yolo", "top_k": 100, "max_det": 50},
            "model_graph": {"stages": [{"top_k": 7, "iou_threshold": 0.3}]},
        }
    )
    assert manifest.detection == {"layout": "yolo", "top_k": 7, "max_det": 50, "iou_threshold": 0.3}


@pytest.mark.parametrize("key", ["type", "stage_type"])
def test_both_spellings_of_the_stage_type(key: str) -> None:
    assert parse({"model_graph": {"stages": [{key: "mochi"}]}}).stage_type == "mochi"


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        pytest.param({}, None, id="nothing said"),
        pytest.param({"stages": [{"class_normal_ids": [0]}]}, (0,), id="stage"),
        pytest.param({"image_level_classes": {"normal_ids": [1]}}, (1,), id="classes"),
        pytest.param({"image_level_classes": {"names": ["anomaly", "normal"]}}, (1,), id="by name"),
        pytest.param({"image_level_classes": {"names": ["good", "bad"]}}, None, id="names that say nothing"),
        pytest.param(
            {"stages": [{"class_normal_ids": [2]}], "image_level_classes": {"normal_ids": [1]}}, (2,), id="stage first"
        ),
        pytest.param(
            {"image_level_classes": {"names": ["normal", "x"], "normal_ids": [1]}}, (1,), id="ids before names"
        ),
    ],
)
def test_normal_ids(graph: dict[str, Any], expected: tuple[int, ...] | None) -> None:
    assert parse({"model_graph": graph}).normal_ids == expected


def test_a_real_anomaly_manifest_parses_unchanged() -> None:
    """As in a public write-up of a real package: no runtime, no task, a code name as stage type, a dataset block."""
    manifest = parse(
        {
            "model_graph": {
                "model_graph_type": "single_stage_model_graph",
                "stages": [
                    {
                        "type": "mochi",
                        "input_shape": [1, 3, 224, 224],
                        "image_range_scale": True,
                        "normalize": True,
                        "threshold": 0.702,
                        "class_normal_ids": [1],
                        "calibrated": True,
                        "seg_threshold": None,
                    }
                ],
                "image_level_classes": {"names": ["anomaly", "normal"], "normal_ids": [1]},
                "pixel_level_classes": {"names": [], "normal_ids": []},
            },
            "dataset": {"image_width": 1280, "image_height": 720, "name": "x", "manifest": "s3://b/x.manifest"},
            "training": {"epochs": 30},
            "compilable_models": [{"filename": "mochi.pt", "data_input_config": {"input": [1, 3, 224, 224]}}],
        }
    )
    assert (manifest.runtime, manifest.task, manifest.stage_type) == ("dlr", "anomaly", "mochi")
    assert manifest.normal_ids == (1,)
    assert manifest.stage["threshold"] == 0.702
    assert manifest.stage["normalize"] is True
    assert manifest.dataset_size == (720, 1280)
    assert manifest.warnings == ()


@pytest.mark.parametrize(
    ("layout", "detection"),
    [
        pytest.param(
            "yolo", {"num_classes": 80, "score_threshold": 0.25, "iou_threshold": 0.45, "network_input": 640}, id="yolo"
        ),
        pytest.param(
            "rf_detr",
            {"layout": "rf_detr", "num_classes": 90, "score_threshold": 0.5, "top_k": 300, "network_input": 560},
            id="rf_detr",
        ),
    ],
)
def test_the_detection_manifests_of_the_portal_parse_unchanged(layout: str, detection: dict[str, Any]) -> None:
    side = detection["network_input"]
    stage = {
        "stage_type": f"{layout}_object_detection",
        "threshold": detection["score_threshold"],
        "image_width": side,
        "image_height": side,
        "image_range_scale": True,
        "normalize": False,
        "input_shape": [1, 3, side, side],
    }
    detection["class_names"] = ["person", "bicycle"]
    manifest = parse(
        {
            "runtime": "onnx",
            "runtime_artifact": "model.onnx",
            "task": "object_detection",
            "detection": detection,
            "model_graph": {"model_graph_type": "single_stage_model_graph", "stages": [stage]},
        }
    )
    assert manifest.detection == detection
    assert manifest.stage == stage
    assert manifest.stage_type == f"{layout}_object_detection"
    assert manifest.warnings == ()


def test_an_anomaly_manifest_of_the_tests_has_no_warnings() -> None:
    assert parse(anomaly_manifest()).warnings == ()


def test_the_sizes_of_a_dataset_count_only_together() -> None:
    assert parse({"dataset": {"image_width": 640}}).dataset_size is None


def test_an_output_keeps_its_activation_and_gets_none_by_default() -> None:
    outputs = parse({"outputs": {"boxes": {"tensor": 1}, "logits": {"tensor": "l", "activation": "sigmoid"}}}).outputs
    assert outputs == {
        "boxes": {"tensor": 1, "activation": "none"},
        "logits": {"tensor": "l", "activation": "sigmoid"},
    }
