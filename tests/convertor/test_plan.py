"""Plans: the whole text of what is generated, and every tensor and map of the wire contract.

`UPDATE_GOLDENS=1 pytest tests/convertor/test_plan.py` writes the golden files anew; git shows what changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from convertor import payload
from convertor.convert import Prepared
from convertor.model_config import parse_config
from convertor.plan import PackageMember, PayloadFile, describe_plan
from tests.convertor.conversions import model_json, prepared, texts
from tests.convertor.goldens import check_golden
from tests.convertor.packages import anomaly_manifest, onnx_bytes, yolo_manifest


def yolo(folder: Path, **options: Any) -> Prepared:
    manifest = yolo_manifest(
        model_name="parts",
        device="cuda",
        serving={"instances": 2, "threads": 4},
        execution={"preprocessor_id": "auto", "allow_compatibility_fallback": True},
    )
    manifest["detection"].update(class_thresholds={"dog": 0.6}, classes=["dog", 2], compare="greater")
    return prepared(folder, manifest, **options)


def rf_detr(folder: Path) -> Prepared:
    manifest: dict[str, Any] = {
        "runtime": "onnx",
        "task": "object_detection",
        "detection": {"layout": "canele", "num_classes": 2, "background_class": -1, "top_k": 100},
        "model_graph": {"stages": [{"normalize": True, "threshold": 0.35}]},
        "outputs": {"boxes": {"tensor": "dets"}, "logits": {"tensor": 1, "activation": "sigmoid"}},
    }
    files = {"model.onnx": onnx_bytes(outputs={"dets": (1, 50, 4), "labels": (1, 50, 3)}, names="['nut', 'bolt']")}
    return prepared(folder, manifest, files, name="line-4.detr", version=7)


def anomaly(folder: Path) -> Prepared:
    files = {"mochi/model.onnx": onnx_bytes(outputs={"score": (1, 2), "map": (1, 2, 64, 64)}), "mochi/notes": b"n"}
    return prepared(folder, anomaly_manifest(normalize=True), files, device="cpu")


PACKAGES = {"yolo": yolo, "rf_detr": rf_detr, "anomaly": anomaly}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_generated_text_is_the_golden_one(tmp_path: Path, package: str) -> None:
    check_golden(package, texts(PACKAGES[package](tmp_path).plan))


# The wire contract's capture profile, typed here a second time; IMAGE stands for the image's dims.
IMAGE = "IMAGE"
UINT8, FP32 = "TYPE_UINT8", "TYPE_FP32"
BASE_IN = {"input": (UINT8, IMAGE)}
BASE_OUT = {
    "output": (UINT8, [1]),
    "output_confidence": (FP32, [1]),
    "output_score": (FP32, [1]),
    "mask": (UINT8, IMAGE),
    "anomalies": (UINT8, [-1]),
}
MARSHAL_IN = {
    "input": (UINT8, IMAGE),
    "inference_output": (UINT8, [1]),
    "inference_mask": (UINT8, IMAGE),
    "inference_confidence": (FP32, [1]),
    "inference_score": (FP32, [1]),
    "inference_anomalies": (UINT8, [-1]),
    "metadata": (UINT8, [-1]),
}
MARSHAL_OUT = {
    "output": (UINT8, [-1]),
    "mask": (UINT8, [-1]),
    "overlay": (UINT8, [-1]),
    "output_anomalous": (UINT8, [1]),
    "output_confidence": (FP32, [1]),
}
ENSEMBLE_IN = {"input": (UINT8, IMAGE), "METADATA": (UINT8, [-1])}
ENSEMBLE_OUT = {
    "output_capture": (UINT8, [-1]),
    "output_mask": (UINT8, [-1]),
    "output_overlay": (UINT8, [-1]),
    "output_anomalous": (UINT8, [1]),
    "output_confidence": (FP32, [1]),
}
BASE_STEP = (
    {"input": "input"},
    {
        "output": "inference_output",
        "mask": "inference_mask",
        "anomalies": "inference_anomalies",
        "output_score": "inference_score",
        "output_confidence": "inference_confidence",
    },
)
MARSHAL_STEP = (
    {
        "input": "input",
        "inference_output": "inference_output",
        "inference_mask": "inference_mask",
        "inference_confidence": "inference_confidence",
        "inference_score": "inference_score",
        "inference_anomalies": "inference_anomalies",
        "metadata": "METADATA",
    },
    {
        "output": "output_capture",
        "mask": "output_mask",
        "overlay": "output_overlay",
        "output_anomalous": "output_anomalous",
        "output_confidence": "output_confidence",
    },
)


def tensors(listed: Iterable[Any]) -> dict[str, tuple[str, list[int]]]:
    kinds = {2: UINT8, 11: FP32}
    return {tensor.name: (kinds[tensor.data_type], list(tensor.dims)) for tensor in listed}


def with_dims(table: dict[str, Any], dims: list[int]) -> dict[str, tuple[str, list[int]]]:
    return {name: (kind, dims if shape == IMAGE else shape) for name, (kind, shape) in table.items()}


def fields(config: Any) -> set[str]:
    return {field.name for field, _ in config.ListFields()}


@pytest.mark.parametrize("package", PACKAGES)
def test_the_configs_are_the_wire_contract_field_by_field(tmp_path: Path, package: str) -> None:
    plan = PACKAGES[package](tmp_path).plan
    base, marshal, ensemble = (parse_config(model.config, model.name) for model in plan.models)
    assert [config.name for config in (base, marshal, ensemble)] == [model.name for model in plan.models]
    assert [model.name for model in plan.models] == [f"base_{plan.name}", f"marshal_{plan.name}", plan.name]
    assert [model.is_ensemble for model in plan.models] == [False, False, True]
    dims = [-1, -1, -1]
    for config, inputs, outputs in (
        (base, BASE_IN, BASE_OUT),
        (marshal, MARSHAL_IN, MARSHAL_OUT),
        (ensemble, ENSEMBLE_IN, ENSEMBLE_OUT),
    ):
        assert tensors(config.input) == with_dims(inputs, dims)
        assert tensors(config.output) == with_dims(outputs, dims)
        assert config.max_batch_size == 0
    for config in (base, marshal):
        assert fields(config) == {"name", "backend", "input", "output", "instance_group", "version_policy"}
        assert config.backend == "python"
        assert config.version_policy.latest.num_versions == 2
        assert len(config.instance_group) == 1
    assert fields(ensemble) == {"name", "platform", "input", "output", "ensemble_scheduling"}
    assert ensemble.platform == "ensemble"
    steps = ensemble.ensemble_scheduling.step
    assert [(step.model_name, step.model_version) for step in steps] == [
        (f"base_{plan.name}", plan.version),
        (f"marshal_{plan.name}", plan.version),
    ]
    assert [(dict(step.input_map), dict(step.output_map)) for step in steps] == [BASE_STEP, MARSHAL_STEP]


@pytest.mark.parametrize(
    ("manifest", "options", "kind", "count"),
    [
        pytest.param({}, {}, "KIND_AUTO", 1, id="defaults"),
        pytest.param({"device": "cpu"}, {}, "KIND_CPU", 1, id="cpu"),
        pytest.param(
            {"device": "gpu"}, {}, "KIND_AUTO", 1, id="gpu: the engine decides, KIND_GPU would not load without one"
        ),
        pytest.param({"device": "gpu"}, {"device": "cpu"}, "KIND_CPU", 1, id="--device wins"),
        pytest.param({"serving": {"instances": 3}}, {}, "KIND_AUTO", 3, id="instances"),
        pytest.param({"serving": {"instances": 3}}, {"instances": 2}, "KIND_AUTO", 2, id="--instances wins"),
    ],
)
def test_instances(tmp_path: Path, manifest: dict[str, Any], options: dict[str, Any], kind: str, count: int) -> None:
    plan = prepared(tmp_path, yolo_manifest(**manifest), **options).plan
    (group,) = parse_config(plan.models[0].config, "base").instance_group
    assert (group.Kind.Name(group.kind), group.count) == (kind, count)
    (group,) = parse_config(plan.models[1].config, "marshal").instance_group
    assert (group.Kind.Name(group.kind), group.count) == ("KIND_CPU", 1)


@pytest.mark.parametrize(
    ("given", "written"), [("cuda", "gpu"), ("gpu", "gpu"), ("auto", "auto"), ("tensorrt", "tensorrt")]
)
def test_device_words_in_model_json(tmp_path: Path, given: str, written: str) -> None:
    assert model_json(prepared(tmp_path, yolo_manifest(), device=given))["device"] == written


@pytest.mark.parametrize(
    ("serving", "written"),
    [
        pytest.param({}, {"threads": 0}, id="defaults"),
        pytest.param({"threads": 2}, {"threads": 2}, id="threads"),
        pytest.param({"tf32": True}, {"threads": 0, "tf32": True}, id="tf32"),
        pytest.param({"tf32": False}, {"threads": 0}, id="no tf32"),
    ],
)
def test_how_the_engine_runs_in_model_json(tmp_path: Path, serving: dict[str, Any], written: dict[str, Any]) -> None:
    assert model_json(prepared(tmp_path, yolo_manifest(serving=serving)))["execution"] == written


def test_every_version_folder_says_what_it_is(tmp_path: Path) -> None:
    written = texts(yolo(tmp_path).plan)
    described = {path: json.loads(text) for path, text in written.items() if path.endswith("model.json")}
    assert sorted(described) == ["base_parts/1/model.json", "marshal_parts/1/model.json", "parts/1/model.json"]
    assert len({json.dumps(value) for value in described.values()}) == 1
    assert list(described["parts/1/model.json"]) == [
        "format",
        "name",
        "version",
        "task",
        "profile",
        "runtime",
        "family",
        "device",
        "artifact",
        "preprocess",
        "decode",
        "class_names",
        "outputs",
        "execution",
        "source_sha256",
    ]


def test_what_is_copied(tmp_path: Path) -> None:
    plan = anomaly(tmp_path).plan
    base, marshal, ensemble = ({file.path: file.source for file in model.files} for model in plan.models)
    assert base["artifact/model.onnx"] == PackageMember("mochi/model.onnx")
    assert base["artifact/notes"] == PackageMember("mochi/notes")
    assert base["model.py"] == PayloadFile(payload.TEMPLATES / "base" / "model.py")
    assert marshal["model.py"] == PayloadFile(payload.TEMPLATES / "marshal" / "model.py")
    assert base["postprocessors/anomaly/decode.py"] == PayloadFile(payload.POSTPROCESSORS / "anomaly" / "decode.py")
    assert not any(path.startswith("artifact/") for path in (*marshal, *ensemble))
    assert sorted(ensemble) == ["model.json"]
    for files in (base, marshal):
        assert not any(path.endswith((".j2", "support.py", ".pyc", ".md")) for path in files)
        assert all(source.path.is_file() for source in files.values() if isinstance(source, PayloadFile))


def test_a_hostile_class_name_stays_a_class_name(tmp_path: Path) -> None:
    names = ['"}], "source_sha256": "', "\\", "{{ x }}"]
    manifest = yolo_manifest(detection={"layout": "yolo", "class_names": names})
    assert model_json(prepared(tmp_path, manifest))["class_names"] == names


def test_describe_plan_is_plain_and_whole(tmp_path: Path) -> None:
    plan = yolo(tmp_path).plan
    described = json.loads(json.dumps(describe_plan(plan)))
    assert (described["name"], described["version"], described["task"]) == ("parts", 1, "object_detection")
    assert [model["name"] for model in described["models"]] == ["base_parts", "marshal_parts", "parts"]
    assert "1/artifact/model.onnx" in described["models"][0]["files"]
    assert described["models"][2]["config"] == plan.models[2].config
