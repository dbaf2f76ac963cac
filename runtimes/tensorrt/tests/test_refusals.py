"""What cannot be loaded, each in the one line that a user sees; without TensorRT and without a GPU."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from runtimes.contract import RunnerError, RunnerOptions, make_runner
from runtimes.tensorrt.plan_file import open_plan
from runtimes.tensorrt.tests.fake_cuda import FakeCuda
from runtimes.tensorrt.tests.fakes import VERSION, FakeEngine, FakeTrt, plan_bytes, save_plan
from runtimes.tensorrt.tests.test_runner import detector

BUILD = "; build one on the target with trtexec or tensorrt's Builder"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:e0\nsize 34709711\n"
METADATA = {"description": "Ultralytics YOLO11n model", "task": "detect", "imgsz": [640, 640], "names": {"0": "ä"}}
# Until 8.5: a number of the layout, the size of what follows, the version's parts each behind a tag.
OLD = struct.pack("<4s4xQQ", b"ptrt", 205, 16) + b"".join(b"\x02\x80\x01\x00" + bytes([part]) for part in (8, 2, 1, 8))


def with_metadata(plan: bytes, metadata: Any = METADATA, length: int | None = None) -> bytes:
    """Return what Ultralytics writes: 4 bytes of length, JSON, the plan."""
    text = json.dumps(metadata).encode()
    return (len(text) if length is None else length).to_bytes(4, "little") + text + plan


def refusal(path: Path, **options: Any) -> str:
    """Return the line; every way of loading goes through the runner."""
    with pytest.raises(RunnerError) as caught:
        make_runner("tensorrt", RunnerOptions(path, **options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is installed, whatever this environment has: None makes an import fail."""
    for name in ("tensorrt", "tensorrt_rtx", "tensorrt_rtx_bindings", "cuda.bindings.runtime"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        pytest.param(b"", f"model.plan: expected a plan of TensorRT, got an empty file{BUILD}", id="empty"),
        pytest.param(b"junk" * 90, f"model.plan: expected a plan of TensorRT, got something else{BUILD}", id="junk"),
        pytest.param(b"\x01", f"model.plan: expected a plan of TensorRT, got something else{BUILD}", id="one-byte"),
        pytest.param(
            POINTER,
            "model.plan: expected a plan of TensorRT, got a Git LFS pointer "
            f"(run `git lfs pull` and convert again){BUILD}",
            id="git-lfs",
        ),
        pytest.param(
            b"\x08\x08\x12\x07pytorch" + b"\x00" * 90,
            f"model.plan: expected a plan of TensorRT, got an ONNX model (runtime onnx runs it as it is){BUILD}",
            id="onnx-renamed",
        ),
        pytest.param(
            with_metadata(b""),
            f"model.plan: expected a plan of TensorRT, got Ultralytics' metadata with no plan behind it{BUILD}",
            id="metadata-alone",
        ),
        pytest.param(
            plan_bytes()[:20],
            "model.plan: is cut short, only 20 bytes of a plan are there; copy it again",
            id="cut-in-the-header",
        ),
        pytest.param(
            plan_bytes()[:-3],
            "model.plan: is cut short, expected 38 bytes by its header, got 35; "
            "copy it again or rebuild it on the target",
            id="cut-short",
        ),
        pytest.param(
            plan_bytes() + b"more",
            "model.plan: has more than a plan in it, expected 38 bytes by its header, got 42; "
            "copy it again or rebuild it on the target",
            id="too-long",
        ),
        pytest.param(
            with_metadata(plan_bytes()[:-3]),
            "model.plan: is cut short, expected 38 bytes by its header, got 35; "
            "copy it again or rebuild it on the target",
            id="cut-short-behind-metadata",
        ),
        pytest.param(
            OLD,
            "model.plan: built with TensorRT 8.2.1.8, TensorRT 10 and newer cannot read it; rebuild it on the target",
            id="B95-tensorrt-8.2",
        ),
        pytest.param(
            plan_bytes(),
            "runtime tensorrt: tensorrt is not usable in the server's python (not installed); "
            "pip install tensorrt==10.15.1.29",
            id="tensorrt-not-installed",
        ),
        pytest.param(
            plan_bytes("1.7.1.116", b"vtrt"),
            "runtime tensorrt: tensorrt_rtx is not usable in the server's python (not installed); "
            "pip install tensorrt-rtx==1.7.1.116",
            id="rtx-not-installed",
        ),
    ],
)
def test_files(tmp_path: Path, content: bytes, line: str) -> None:
    assert refusal(save_plan(tmp_path, content)) == line


def test_no_file(tmp_path: Path) -> None:
    line = "model.plan: expected the model's file, got nothing there; convert the package again"
    assert refusal(tmp_path / "model.plan") == line


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(with_metadata(plan_bytes(), length=1 << 30), id="length-beyond-the-file"),
        pytest.param(with_metadata(plan_bytes(), ["a", "list"]), id="no-object"),
        pytest.param(with_metadata(plan_bytes(), length=9), id="length-into-the-json"),
        pytest.param(b"\x04\0\0\0{}}}" + plan_bytes(), id="no-json"),
        pytest.param(b"\x06\0\0\0\xff\xfe{\0}\0" + plan_bytes(), id="utf-16"),
        pytest.param(with_metadata(b"x" + plan_bytes()), id="no-plan-right-behind"),
    ],
)
def test_only_real_metadata_is_stripped(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(RunnerError, match=r"^model.plan: expected a plan of TensorRT, got "):
        open_plan(save_plan(tmp_path, content))


@pytest.mark.parametrize("magic", [b"ftrt", b"vtrt"])
def test_metadata_of_ultralytics_is_stripped(tmp_path: Path, magic: bytes) -> None:
    plan = open_plan(save_plan(tmp_path, with_metadata(plan_bytes("10.0.1.6", magic, layout=1))))
    assert bytes(plan.content) == plan_bytes("10.0.1.6", magic, layout=1)
    assert (plan.product, plan.version) == ("TensorRT" if magic == b"ftrt" else "TensorRT-RTX", "10.0.1.6")


def install(monkeypatch: pytest.MonkeyPatch, **modules: ModuleType) -> None:
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize("module", ["tensorrt_rtx", "tensorrt_rtx_bindings"])
def test_a_plan_of_tensorrt_and_only_rtx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    install(monkeypatch, **{module: FakeTrt(None, "1.7.1.116")})
    assert refusal(save_plan(tmp_path)) == (
        "model.plan: built with TensorRT 10.15.1.29, here is only TensorRT-RTX 1.7.1.116, which cannot run it; "
        "pip install tensorrt==10.15.1.29, or rebuild it on the target with TensorRT-RTX 1.7.1.116"
    )


def test_a_plan_of_rtx_and_only_tensorrt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tensorrt=FakeTrt(None))
    assert refusal(save_plan(tmp_path, plan_bytes("1.7.1.116", b"vtrt"))) == (
        "model.plan: built with TensorRT-RTX 1.7.1.116, here is only TensorRT 10.15.1.29, which cannot run it; "
        "pip install tensorrt-rtx==1.7.1.116, or rebuild it on the target with TensorRT 10.15.1.29"
    )


def test_rtx_bindings_serve_without_the_meta_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda()
    bindings = FakeTrt(detector(cuda), "1.7.1.116")
    install(monkeypatch, tensorrt_rtx_bindings=bindings, **{"cuda.bindings.runtime": cuda})
    path = save_plan(tmp_path, plan_bytes("1.7.1.116", b"vtrt"))
    assert make_runner("tensorrt", RunnerOptions(path)).details["engine"] == "TensorRT-RTX 1.7.1.116"


def test_no_cuda_bindings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tensorrt=FakeTrt(None))
    assert refusal(save_plan(tmp_path)) == (
        "runtime tensorrt: cuda.bindings is not usable in the server's python (not installed); "
        "pip install cuda-bindings"
    )


NO_GPU = (
    "device {device}: no usable GPU (CUDA: cudaGetDeviceCount: no driver), and runtime tensorrt runs on nothing else; "
    "install NVIDIA's driver and give the server a GPU, or serve the ONNX model with runtime onnx"
)
ABSENT = "device auto: no usable GPU 2, CUDA sees 2; give the server one, or serve the ONNX model with runtime onnx"
CPU = "device cpu: runtime tensorrt needs a GPU; set device to auto or gpu, or serve the ONNX model with runtime onnx"


@pytest.mark.parametrize(
    ("gpus", "options", "line"),
    [
        pytest.param(0, {"device": "auto"}, NO_GPU.format(device="auto"), id="auto-does-not-fall-to-the-cpu"),
        pytest.param(0, {"device": "gpu"}, NO_GPU.format(device="gpu"), id="gpu"),
        pytest.param(0, {"device": "tensorrt"}, NO_GPU.format(device="tensorrt"), id="tensorrt"),
        pytest.param(2, {"device_id": 2}, ABSENT, id="a-gpu-that-is-not-there"),
        pytest.param(1, {"device": "cpu"}, CPU, id="cpu"),
    ],
)
def test_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: int, options: dict[str, Any], line: str
) -> None:
    cuda = FakeCuda(gpus)
    install(monkeypatch, tensorrt=FakeTrt(detector(cuda)), **{"cuda.bindings.runtime": cuda})
    assert refusal(save_plan(tmp_path), **options) == line


LINEAR = "expected it on the GPU in linear order, got"
REBUILD = "build the plan with linear inputs and outputs"
HERE = "TensorRT 10.15.1.29"


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        pytest.param(
            {"names": ["logits", "images", "sizes", "boxes"], "second_input": "sizes"},
            "model.plan: expected one input (the image), got 2: images, sizes; "
            "build the plan from a model with the image as its only input",
            id="B87-two-inputs",
        ),
        pytest.param(
            {"image": "none of them"},
            "model.plan: expected one input (the image), got 0: none; "
            "build the plan from a model with the image as its only input",
            id="no-input",
        ),
        pytest.param({"format": "CHW4"}, f"model.plan: tensor logits: {LINEAR} DEVICE and CHW4; {REBUILD}", id="CHW4"),
        pytest.param(
            {"location": "HOST"}, f"model.plan: tensor logits: {LINEAR} HOST and LINEAR; {REBUILD}", id="host"
        ),
        pytest.param(
            {"types": {"boxes": "FP8"}},
            "tensor boxes: type FP8 is not one that can be served; rebuild it with float32",
            id="FP8",
        ),
        pytest.param(
            {"failure": "context"},
            f"model.plan: {HERE} cannot run it on A fake GPU (compute capability 9.0): no reason given",
            id="no-context",
        ),
        pytest.param(
            {"failure": "runtime"},
            f"runtime tensorrt: {HERE} does not start: no reason given "
            "(pybind11::init(): factory function returned nullptr)",
            id="no-runtime",
        ),
    ],
)
def test_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], line: str) -> None:
    cuda = FakeCuda()
    engine = detector(cuda, **changed) if "image" not in changed else FakeEngine(cuda, ["a"], (1,), dict, **changed)
    install(monkeypatch, tensorrt=FakeTrt(engine), **{"cuda.bindings.runtime": cuda})
    assert refusal(save_plan(tmp_path)) == line
    assert (cuda.live, cuda.streams) == ({"host": {}, "device": {}}, {})


# What TensorRT 10 logs, in this order.
OTHER_VERSION = (
    "IRuntime::deserializeCudaEngine: Error Code 6: API Usage Error (The engine plan file is not compatible with this "
    "version of TensorRT, expecting library version 10.16.0.72 got 10.15.1.29, please rebuild.)"
)
FAILED = "IRuntime::deserializeCudaEngine: Error Code 4: Internal Error (Engine deserialization failed.)"


@pytest.mark.parametrize(
    ("errors", "reason"),
    [
        pytest.param([OTHER_VERSION.replace("got ", "got\n"), FAILED], OTHER_VERSION, id="another-version"),
        pytest.param([], "no reason given", id="nothing-said"),
    ],
)
def test_b95_an_engine_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, errors: list[str], reason: str
) -> None:
    cuda = FakeCuda()
    install(monkeypatch, tensorrt=FakeTrt(None, "10.16.0.72", errors), **{"cuda.bindings.runtime": cuda})
    assert refusal(save_plan(tmp_path)) == (
        f"model.plan: built with TensorRT {VERSION}, TensorRT 10.16.0.72 on A fake GPU (compute capability 9.0) "
        f"refuses it: {reason}; rebuild it on the target with TensorRT 10.16.0.72"
    )
    assert cuda.streams == {}
