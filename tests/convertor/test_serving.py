"""How a model of the tensors profile is served: batches, instances, and what limits the engine's batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import StringStringEntryProto

from convertor.convert import Prepared
from tests.convertor.conversions import model_json, prepared
from tests.convertor.packages import onnx_bytes, yolo_manifest
from tests.convertor.tensors_packages import configs, with_yolo


def batching(one: Prepared) -> tuple[int, int, list[int]]:
    config = configs(one)["base_parts"]
    dynamic = config.dynamic_batching
    return config.max_batch_size, dynamic.max_queue_delay_microseconds, list(dynamic.preferred_batch_size)


@pytest.mark.parametrize(
    ("serving", "asked", "batch", "expected"),
    [
        pytest.param({}, {}, "b", (8, 0, []), id="defaults"),
        pytest.param({"max_batch_size": 4}, {}, "b", (4, 0, []), id="serving"),
        pytest.param({"max_batch_size": 4}, {"max_batch_size": 2}, "b", (2, 0, []), id="command line"),
        pytest.param({"queue_delay_us": 700}, {}, "b", (8, 700, []), id="delay"),
        pytest.param({"preferred_batch_sizes": [2, 8]}, {}, "b", (8, 0, [2, 8]), id="preferred"),
        pytest.param({}, {}, 1, (8, 0, []), id="graph of one image"),
        pytest.param({}, {}, 3, (8, 0, [3, 6]), id="graph of three images"),
        pytest.param({"preferred_batch_sizes": [8]}, {}, 3, (8, 0, [8]), id="preferred, graph of three images"),
        pytest.param({}, {}, 16, (8, 0, []), id="graph of more than a batch"),
    ],
)
def test_batching(
    tmp_path: Path, serving: dict[str, Any], asked: dict[str, Any], batch: Any, expected: tuple[int, int, list[int]]
) -> None:
    manifest = yolo_manifest(model_name="parts", serving={"profile": "tensors", **serving})
    graph = onnx_bytes({"images": (batch, 3, 64, 64)}, {"output0": (batch, 7, 21)})
    one = prepared(tmp_path, manifest, {"model.onnx": graph}, **asked)
    assert batching(one) == expected
    assert model_json(one)["max_batch_size"] == expected[0]
    for name in ("decode_parts", "marshal_parts"):
        assert configs(one)[name].dynamic_batching.max_queue_delay_microseconds == 0


@pytest.mark.parametrize(
    ("options", "kind", "count", "gpus"),
    [
        pytest.param({}, "KIND_AUTO", 1, [], id="auto"),
        pytest.param({"on": "cpu"}, "KIND_CPU", 1, [], id="cpu"),
        pytest.param({"on": "gpu", "instances": 2}, "KIND_AUTO", 2, [], id="gpu: the engine decides"),
        pytest.param({"serving": {"gpus": [1, 3], "instances": 2}}, "KIND_GPU", 2, [1, 3], id="gpus"),
    ],
)
def test_instances(tmp_path: Path, options: dict[str, Any], kind: str, count: int, gpus: list[int]) -> None:
    by_name = configs(with_yolo(tmp_path, "object_detection", **options))
    (group,) = by_name["base_parts"].instance_group
    assert (group.Kind.Name(group.kind), group.count, list(group.gpus)) == (kind, count, gpus)
    for name in ("decode_parts", "marshal_parts"):
        (group,) = by_name[name].instance_group
        assert (group.Kind.Name(group.kind), group.count) == ("KIND_CPU", 1)


@pytest.mark.parametrize(
    ("profile", "asked", "limit", "warned"),
    [
        pytest.param("tensors", None, 2, True, id="smaller than a batch"),
        pytest.param("tensors", 2, 2, False, id="a batch"),
        pytest.param("capture", None, None, False, id="capture: one image"),
    ],
)
def test_nms_in_the_graph_limits_the_engine_s_batch(
    tmp_path: Path, profile: str, asked: int | None, limit: int | None, warned: bool
) -> None:
    graph = onnx.load_from_string(onnx_bytes({"images": ("b", 3, 64, 64)}, {"output0": ("b", 300, 6)}))
    metadata = {"task": "detect", "stride": "32", "end2end": "False", "args": "{'nms': True}", "batch": "2"}
    graph.metadata_props.extend(StringStringEntryProto(key=key, value=value) for key, value in metadata.items())
    files = {"model.onnx": graph.SerializeToString()}
    one = prepared(tmp_path, yolo_manifest(serving={"profile": profile}), files, max_batch_size=asked)
    assert model_json(one)["execution"].get("max_engine_batch") == limit
    assert any("right for at most 2 images at once" in line for line in one.warnings) == warned
