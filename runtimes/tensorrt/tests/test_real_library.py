"""TensorRT for RTX itself: real plans, and everything of the runner that needs no GPU.

Without a GPU it deserialises nothing: what it says then, and of damage, is tested here. Where there is a GPU, its
engines are run too; it refuses some (compute capability 9.0), and then with our line.
"""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtimes.contract import RunnerError, RunnerOptions, make_runner
from runtimes.tensorrt.callbacks import error_log, output_allocator
from runtimes.tensorrt.plan_file import TENSORRT_RTX, Plan, open_plan
from runtimes.tensorrt.runner import deserialize
from runtimes.tensorrt.tests.fake_cuda import FakeCuda
from runtimes.tensorrt.tests.fakes import save_plan
from runtimes.tensorrt.tests.gpu import has_gpu
from runtimes.tensorrt.tests.test_refusals import with_metadata

pytest.importorskip("onnx")
if importlib.util.find_spec("tensorrt_rtx"):
    trt: Any = pytest.importorskip("tensorrt_rtx")
else:
    trt = pytest.importorskip("tensorrt_rtx_bindings", reason="TensorRT for RTX is not installed")

from runtimes.tensorrt.tests import real_plans

VERSION: str = trt.__version__


@pytest.fixture(scope="module")
def log() -> Any:
    return error_log(trt)


@pytest.fixture(scope="module")
def plan(log: Any) -> bytes:
    return real_plans.build(trt, log, real_plans.graph())


@pytest.mark.parametrize("largest", [None, 8])
def test_the_header_of_a_real_plan(tmp_path: Path, log: Any, largest: int | None) -> None:
    content = real_plans.build(trt, log, real_plans.graph(1 if largest is None else "n"), largest)
    for file in (content, with_metadata(content)):
        opened = open_plan(save_plan(tmp_path, file))
        assert (opened.product, opened.version) == (TENSORRT_RTX, VERSION)
        assert bytes(opened.content) == content


def refusal(log: Any, content: bytes) -> str:
    """Return what the real runtime and our line say of a plan's bytes."""
    with pytest.raises(RunnerError) as caught:
        deserialize(trt, log, Plan(memoryview(content), TENSORRT_RTX, "1.2.0.4"), "model.plan", "this GPU")
    text = str(caught.value)
    here = f"TensorRT-RTX {VERSION}"
    start, end = (
        f"model.plan: built with TensorRT-RTX 1.2.0.4, {here} on this GPU refuses it: ",
        f"; rebuild it on the target with {here}",
    )
    assert text.startswith(start)
    assert text.endswith(end)
    assert "\n" not in text
    return text[len(start) : -len(end)]


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        pytest.param(lambda plan: plan[:1000], "plan.header.size == blobSize", id="cut-short"),
        pytest.param(lambda plan: plan + b"!", "plan.header.size == blobSize", id="too-long"),
        pytest.param(lambda plan: plan[:3], "bufferSize >= minBufferSize", id="cut-in-the-header"),
        pytest.param(lambda plan: b"ftrt" + plan[4:], "magicTag == kEXPECTED_MAGIC_TAG", id="a-plan-of-tensorrt"),
        pytest.param(lambda plan: b"x" * len(plan), "magicTag == kEXPECTED_MAGIC_TAG", id="junk"),
        pytest.param(lambda plan: b"", "empty memory buffer", id="empty"),
    ],
)
def test_b95_the_real_runtime_gives_no_engine_but_a_reason(log: Any, plan: bytes, patch: Any, reason: str) -> None:
    assert reason in refusal(log, patch(plan))


def test_b95_another_version(log: Any, plan: bytes) -> None:
    # Without a GPU that comes first.
    found = refusal(log, plan[:24] + bytes([1, 200, 0, 1]) + plan[28:])
    assert has_gpu() or "Error Code 1: Cuda Runtime" in found


def test_the_first_error_is_told_and_not_those_that_follow_from_it(log: Any) -> None:
    log.clear()
    assert log.reason == "no reason given"
    assert trt.Runtime(log).deserialize_cuda_engine(memoryview(b"")) is None
    assert "Cannot deserialize with an empty memory buffer" in log.reason


def test_host_code_of_a_plan_is_not_allowed(log: Any) -> None:
    assert trt.Runtime(log).engine_host_code_allowed is False


def test_an_allocator_of_the_real_class(log: Any) -> None:
    from runtimes.tensorrt.cuda_memory import Buffer, Device

    cuda = FakeCuda()
    buffer = Buffer(Device(cuda, 0, "auto"))
    allocator: Any = output_allocator(trt, buffer)
    assert isinstance(allocator, trt.IOutputAllocator)
    assert allocator.reallocate_output_async("out", 0, 100, 256, 0) == buffer.device_address
    assert allocator.reallocate_output("out", 0, 100, 256) == buffer.device_address
    allocator.notify_shape("out", trt.Dims([2, 0, 3]))
    assert allocator.shape == (2, 0, 3)
    cuda.limit = 0
    assert allocator.reallocate_output_async("out", 0, 200, 256, 0) == 0
    assert str(allocator.error) == "CUDA: cudaMalloc: out of memory"


@pytest.mark.parametrize("device", ["auto", "gpu"])
def test_no_gpu(tmp_path: Path, plan: bytes, device: str) -> None:
    pytest.importorskip("cuda.bindings.runtime", reason="cuda-bindings is not installed")
    if has_gpu():
        pytest.skip("there is a GPU here")
    with pytest.raises(RunnerError) as caught:
        make_runner("tensorrt", RunnerOptions(save_plan(tmp_path, plan), device=device))
    assert str(caught.value) == (
        f"device {device}: no usable GPU (CUDA: cudaGetDeviceCount: CUDA driver version is insufficient for CUDA "
        "runtime version), and runtime tensorrt runs on nothing else; install NVIDIA's driver and give the server a "
        "GPU, or serve the ONNX model with runtime onnx"
    )


def test_on_a_gpu(tmp_path: Path, log: Any) -> None:
    if not has_gpu():
        pytest.skip("no GPU here")
    onnxruntime: Any = pytest.importorskip("onnxruntime")
    model = real_plans.graph("n")
    path = save_plan(tmp_path, with_metadata(real_plans.build(trt, log, model, 2)))
    try:
        runner = make_runner("tensorrt", RunnerOptions(path))
    except RunnerError as error:
        # Only a refusal by the library itself: it does not run on every GPU.
        if f"TensorRT-RTX {VERSION}" not in str(error):
            raise
        pytest.skip(str(error))
    images = np.random.default_rng(1).random((5, *real_plans.IMAGE[1:]), np.float32)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (output,) = runner(images)
    np.testing.assert_allclose(output, session.run(None, {"images": images})[0], atol=1e-2)
    assert runner.details["engine"] == f"TensorRT-RTX {VERSION}"
    runner.close()


def test_the_layout_of_a_plans_header(plan: bytes) -> None:
    magic, layout, size, *version = struct.unpack_from("<4s4xQQ4B", plan)
    assert (magic, layout, size) == (b"vtrt", 2, len(plan))
    assert ".".join(map(str, version)) == VERSION
