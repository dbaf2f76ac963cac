"""The tensors profile: the whole text of what is generated, and the wire contract's table typed here a second time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from convertor import payload
from convertor.plan import PayloadFile
from tests.convertor.conversions import model_json, prepared, refused, texts
from tests.convertor.goldens import check_golden
from tests.convertor.packages import onnx_bytes, yolo_manifest
from tests.convertor.tensors_packages import PACKAGES, anomaly, configs, detection, other, segmentation

UINT8, INT32, FP32 = "TYPE_UINT8", "TYPE_INT32", "TYPE_FP32"
GOLDENS = ["object_detection", "instance_segmentation", "classification", "anomaly", "semantic_segmentation"]


def found(rows: int) -> dict[str, tuple[str, list[int]]]:
    return {
        "num_dets": (INT32, [1]),
        "det_boxes": (FP32, [rows, 4]),
        "det_scores": (FP32, [rows]),
        "det_classes": (INT32, [rows]),
        "detections": (UINT8, [-1]),
    }


OVERLAY = {"overlay": (UINT8, [-1])}
OUTPUTS: Mapping[str, dict[str, tuple[str, list[int]]]] = {
    "object_detection": {**found(300), **OVERLAY},
    "instance_segmentation": {**found(100), "det_masks": (UINT8, [-1]), **OVERLAY},
    "keypoint_detection": {**found(300), "det_keypoints": (FP32, [300, 5, 3]), **OVERLAY},
    "oriented_detection": {**found(300), "det_rboxes": (FP32, [300, 5]), **OVERLAY},
    "classification": {"class_scores": (FP32, [3]), "class_ids": (INT32, [3])},
    "anomaly": {
        "anomaly_score": (FP32, [1]),
        "is_anomalous": (UINT8, [1]),
        "anomaly_map": (FP32, [-1, -1]),
        **OVERLAY,
    },
    "semantic_segmentation": {"class_map": (UINT8, [-1, -1]), **OVERLAY},
}
IMAGE = (UINT8, [-1, -1, 3])
FILE = (UINT8, [-1])


@pytest.mark.parametrize("task", GOLDENS)
def test_every_generated_text_is_the_golden_one(tmp_path: Path, task: str) -> None:
    check_golden(f"tensors-{task}", texts(PACKAGES[task](tmp_path).plan))


def tensors(listed: Any) -> dict[str, tuple[str, list[int]]]:
    kinds = {2: UINT8, 8: INT32, 11: FP32}
    return {tensor.name: (kinds[tensor.data_type], list(tensor.dims)) for tensor in listed}


@pytest.mark.parametrize("task", OUTPUTS)
def test_tensors_are_the_wire_contract_s(tmp_path: Path, task: str) -> None:
    outputs = OUTPUTS[task]
    drawn = "overlay" in outputs
    by_name = configs(PACKAGES[task](tmp_path))
    steps = ["decode_parts", "base_parts", *(["marshal_parts"] if drawn else [])]
    assert list(by_name) == [*steps, "parts_encoded", "parts"]
    inner = {"overlay_detections": (UINT8, [-1])} if drawn else {}
    told = {name: spec for name, spec in outputs.items() if name != "overlay"}
    expected = {
        "decode_parts": ({"input_encoded": FILE}, {"image": IMAGE}),
        "base_parts": ({"input": IMAGE}, {**told, **inner}),
        "marshal_parts": ({"input": IMAGE, **inner}, OVERLAY),
        "parts_encoded": ({"input_encoded": FILE}, outputs),
        "parts": ({"input": IMAGE}, outputs),
    }
    for name, config in by_name.items():
        assert (tensors(config.input), tensors(config.output)) == expected[name], name
    for name in steps:
        assert all(tensor.allow_ragged_batch for tensor in by_name[name].input), name
        assert by_name[name].backend == "python"
        assert by_name[name].version_policy.latest.num_versions == 2
        assert by_name[name].HasField("dynamic_batching")
    assert len({config.max_batch_size for config in by_name.values()}) == 1


@pytest.mark.parametrize("task", OUTPUTS)
def test_steps_are_pinned_and_what_marshal_takes_is_no_output(tmp_path: Path, task: str) -> None:
    one = PACKAGES[task](tmp_path)
    by_name, version = configs(one), one.plan.version
    for name, image in (("parts", "input"), ("parts_encoded", "image")):
        config = by_name[name]
        steps = {step.model_name: (dict(step.input_map), dict(step.output_map)) for step in ensemble(config)}
        assert {step.model_version for step in ensemble(config)} == {version}
        told = [tensor.name for tensor in by_name["base_parts"].output]
        expected = {"base_parts": ({"input": image}, {tensor: tensor for tensor in told})}
        if name == "parts_encoded":
            expected["decode_parts"] = ({"input_encoded": "input_encoded"}, {"image": "image"})
        if "overlay" in OUTPUTS[task]:
            taken = {"input": image, "overlay_detections": "overlay_detections"}
            expected["marshal_parts"] = (taken, {"overlay": "overlay"})
        assert steps == expected
        # A server fails a request for a subset of the outputs if an output also feeds a later step.
        fed = {tensor for given, _ in steps.values() for tensor in given.values()}
        assert not fed & {tensor.name for tensor in config.output}
        # A server refuses these on an ensemble.
        assert not config.model_warmup
        assert not config.HasField("dynamic_batching")


def ensemble(config: Any) -> Any:
    assert config.platform == "ensemble"
    return config.ensemble_scheduling.step


@pytest.mark.parametrize("task", OUTPUTS)
def test_warm_up_names_every_input_with_the_network_s_size(tmp_path: Path, task: str) -> None:
    one = PACKAGES[task](tmp_path)
    network = model_json(one)["preprocess"]
    by_name = configs(one)
    warmed = {name: config.model_warmup for name, config in by_name.items() if config.model_warmup}
    if task == "classification":
        assert warmed == {}
        return
    assert list(warmed) == ["base_parts", "marshal_parts"]
    for name, size in (("base_parts", by_name["base_parts"].max_batch_size), ("marshal_parts", 1)):
        (sample,) = warmed[name]
        assert sample.batch_size == size
        assert set(sample.inputs) == {tensor.name for tensor in by_name[name].input}
        assert list(sample.inputs["input"].dims) == [network["height"], network["width"], 3]
    assert list(warmed["marshal_parts"][0].inputs["overlay_detections"].dims) == [0]


def test_model_json(tmp_path: Path) -> None:
    described = model_json(segmentation(tmp_path))
    assert (described["profile"], described["max_batch_size"], described["decode"]["max_det"]) == ("tensors", 16, 100)
    assert described["execution"] == {"threads": 3}
    assert described["preprocess"]["interpolation"] == "linear"


def test_a_stage_s_interpolation_wins(tmp_path: Path) -> None:
    manifest = yolo_manifest(serving={"profile": "tensors"})
    manifest["model_graph"]["stages"][0]["interpolation"] = "area"
    assert model_json(prepared(tmp_path, manifest))["preprocess"]["interpolation"] == "area"


def test_images_are_of_any_size_even_where_the_capture_profile_fixes_them(tmp_path: Path) -> None:
    config = configs(anomaly(tmp_path))["parts"]
    assert tensors(config.input) == {"input": IMAGE}


@pytest.mark.parametrize(
    ("settings", "outputs", "top_k"),
    [
        pytest.param({}, {"logits": (1, 10)}, 5, id="five"),
        pytest.param({"top_k": 3}, {"logits": (1, 10)}, 3, id="top_k"),
        pytest.param({"top_k": 30}, {"logits": (1, 10)}, 10, id="top_k of fewer classes"),
        pytest.param({}, {"logits": (1, 2, 1, 1)}, 2, id="pooled"),
        pytest.param({"num_classes": 4}, {"logits": (1, "n")}, 4, id="num_classes"),
        pytest.param({"class_names": ["a", "b"]}, {"logits": (1, "n")}, 2, id="names"),
    ],
)
def test_how_many_classes_are_told(tmp_path: Path, settings: dict[str, Any], outputs: Any, top_k: int) -> None:
    one = other(tmp_path, "classification", outputs, detection=settings)
    assert tensors(configs(one)["parts"].output)["class_ids"] == (INT32, [top_k])
    assert model_json(one)["decode"]["top_k"] == top_k


def test_the_named_output_counts_the_classes(tmp_path: Path) -> None:
    outputs = {"scores": {"tensor": "logits"}}
    one = other(tmp_path, "classification", {"features": (1, 2), "logits": (1, 4)}, outputs=outputs)
    assert model_json(one)["decode"]["top_k"] == 4


def test_a_class_count_that_nobody_says_is_refused(tmp_path: Path) -> None:
    manifest = {"runtime": "onnx", "task": "classification", "serving": {"profile": "tensors"}}
    manifest["model_graph"] = {"stages": [{"input_shape": [1, 3, 64, 64]}]}  # type: ignore[assignment]
    (line,) = refused(tmp_path, manifest, {"model.onnx": onnx_bytes(outputs={"logits": (1, "n")})})
    assert line.startswith("manifest.json: detection.num_classes: expected the number of classes, which the graph")


def test_keypoints_that_nobody_states_are_the_decoder_s_default(tmp_path: Path) -> None:
    manifest = yolo_manifest(task="keypoint_detection", serving={"profile": "tensors"})
    one = prepared(tmp_path, manifest, {"model.onnx": onnx_bytes(outputs={"output0": (1, 4 + 3 + 51, 99)})})
    assert model_json(one)["decode"]["keypoints"] == [17, 3]
    assert tensors(configs(one)["model"].output)["det_keypoints"] == (FP32, [300, 17, 3])


def test_what_is_copied(tmp_path: Path) -> None:
    models = {model.name: {file.path: file.source for file in model.files} for model in detection(tmp_path).plan.models}
    for name, kind in (("base_parts", "base"), ("marshal_parts", "marshal"), ("decode_parts", "decode")):
        for path, file in payload.template_files(kind):
            assert models[name][path] == PayloadFile(file)
        assert "model.json" in models[name]
        assert "requirements.txt" in models[name]
        assert ("artifact/model.onnx" in models[name]) == (kind == "base")
    assert list(models["parts"]) == list(models["parts_encoded"]) == ["model.json"]
