"""What convert knows of a plan and refuses, without any library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runtimes.contract import RunnerError
from runtimes.tensorrt.plan_file import open_plan
from runtimes.tensorrt.support import check, read_facts
from runtimes.tensorrt.tests.fakes import plan_bytes, save_plan
from runtimes.tensorrt.tests.test_refusals import METADATA, OLD, POINTER, with_metadata

EXPORTED = {
    **METADATA,
    "stride": 32,
    "batch": 1,
    "args": {"batch": 1, "half": False, "dynamic": False},
    "names": {"0": "cat", "1": "dog"},
}


def facts_of(content: bytes) -> tuple[dict[str, Any] | None, list[str]]:
    def read(name: str, limit: int) -> bytes:
        assert name == "model.plan"
        return content[:limit]

    return read_facts("model.plan", {"model.plan": len(content)}, read)


@pytest.mark.parametrize(
    ("changed", "shape"),
    [
        pytest.param({}, [1, 3, 640, 640], id="as-exported"),
        pytest.param({"imgsz": [480, 640], "batch": 4}, [4, 3, 480, 640], id="oblong-and-a-batch"),
        pytest.param({"imgsz": 320}, [1, 3, 320, 320], id="one-number"),
        pytest.param({"channels": 1}, [1, 1, 640, 640], id="grey"),
        pytest.param({"args": {"dynamic": True}}, [None, 3, None, None], id="dynamic"),
        pytest.param({"args": None, "batch": None}, [None, 3, 640, 640], id="older-metadata"),
    ],
)
def test_metadata_of_ultralytics(changed: dict[str, Any], shape: list[int | None]) -> None:
    facts, problems = facts_of(with_metadata(plan_bytes(), {**EXPORTED, **changed}))
    assert problems == []
    assert facts is not None
    assert facts["inputs"] == [{"name": "images", "dtype": "unknown", "shape": shape}]
    assert facts["outputs"] == [{"name": "output0", "dtype": "unknown", "shape": []}]
    assert json.loads(facts["metadata"]["names"]) == {"0": "cat", "1": "dog"}
    assert facts["metadata"]["task"] == "detect"


def test_masks_have_an_output_of_their_own() -> None:
    facts, _ = facts_of(with_metadata(plan_bytes(), {**EXPORTED, "task": "segment"}))
    assert facts is not None
    assert [output["name"] for output in facts["outputs"]] == ["output0", "output1"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(plan_bytes(), id="tensorrt"),
        pytest.param(plan_bytes("1.7.1.116", b"vtrt"), id="rtx"),
        pytest.param(with_metadata(plan_bytes(), {"task": "detect"}), id="no-size"),
        pytest.param(with_metadata(plan_bytes(), {"imgsz": [640, "640"]}), id="size-of-text"),
        pytest.param(with_metadata(plan_bytes(), {"imgsz": True}), id="size-of-truth"),
        pytest.param(with_metadata(plan_bytes(), {"imgsz": [640]}), id="half-a-size"),
    ],
)
def test_a_plan_that_says_nothing_of_its_tensors(content: bytes) -> None:
    assert facts_of(content) == (None, [])


@pytest.mark.parametrize(
    ("content", "got"),
    [
        pytest.param(b"", "expected a plan of TensorRT, got an empty file; build one", id="empty"),
        pytest.param(b"junk" * 9, "expected a plan of TensorRT, got something else; build one", id="junk"),
        pytest.param(POINTER, "expected a plan of TensorRT, got something else; build one", id="git-lfs"),
        pytest.param(
            b"\x08\x08\x12\x07pytorch" + b"\x00" * 90,
            "expected a plan of TensorRT, got an ONNX model, which runtime onnx runs as it is; build one",
            id="onnx-renamed",
        ),
        pytest.param(
            with_metadata(b""),
            "expected a plan of TensorRT, got Ultralytics' metadata with no plan behind it; build one",
            id="metadata-alone",
        ),
        pytest.param(
            with_metadata(plan_bytes(), ["a"]), "expected a plan of TensorRT, got something else; build one", id="list"
        ),
        pytest.param(OLD, "expected a plan of TensorRT 10 or newer, got one of 8.5 or older; build one", id="old"),
        pytest.param(
            plan_bytes()[:-3], "is damaged, expected a plan of 38 bytes by its header, got 35; copy it", id="cut"
        ),
        pytest.param(
            with_metadata(plan_bytes() + b"!"),
            "is damaged, expected a plan of 38 bytes by its header, got 39; copy it",
            id="too-long",
        ),
        pytest.param(
            plan_bytes()[:20], "is damaged, expected a plan of 28 bytes by its header, got 20; copy it", id="no-header"
        ),
    ],
)
def test_what_is_refused_before_anything_runs(tmp_path: Path, content: bytes, got: str) -> None:
    facts, (problem,) = facts_of(content)
    assert facts is None
    assert problem.startswith(f"model.plan: {got}")
    # The server refuses the same: the two read the file on their own.
    with pytest.raises(RunnerError):
        open_plan(save_plan(tmp_path, content))


@pytest.mark.parametrize("device", ["auto", "gpu", "tensorrt"])
def test_devices_that_may_work(device: str) -> None:
    assert check({"device": device}, None) == []


def test_a_cpu_is_refused() -> None:
    assert check({"device": "cpu"}, None) == [
        "device: expected auto, gpu or tensorrt, got cpu; runtime tensorrt needs a GPU: "
        "set it to auto, or pack the ONNX model with runtime onnx"
    ]
