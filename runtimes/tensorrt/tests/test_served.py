"""What `convertor serve` says of plans on a machine without a GPU, while another model serves."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pytriton", reason="needs the embedded server")
pytest.importorskip("onnx")

from convertor.cli import main
from runtimes.tensorrt.tests import real_plans
from runtimes.tensorrt.tests.fakes import plan_bytes
from runtimes.tensorrt.tests.gpu import has_gpu
from runtimes.tensorrt.tests.test_refusals import with_metadata
from tests.builders import anomaly_manifest, constant_graph, detector_manifest, write_package
from tests.engines.serving import Served, convertor_serve

pytestmark = pytest.mark.server

RTX = importlib.util.find_spec("tensorrt_rtx_bindings") is not None
ONNX_CPU = "or serve the ONNX model with runtime onnx"


def real_plan() -> bytes:
    """Return a plan of the library that is here, else one with such a header and nothing in it."""
    if not RTX:
        return plan_bytes("1.7.1.116", b"vtrt")
    trt: Any = pytest.importorskip("tensorrt_rtx_bindings")
    from runtimes.tensorrt.callbacks import error_log

    return real_plans.build(trt, error_log(trt), real_plans.graph())


def expected() -> dict[str, str]:
    """Return the lines for what is installed here."""
    if not RTX:
        not_here = "runtime tensorrt: {} is not usable in the server's python (not installed); pip install {}"
        return {
            "of_tensorrt": not_here.format("tensorrt", "tensorrt==10.15.1.29"),
            "of_rtx": not_here.format("tensorrt_rtx", "tensorrt-rtx==1.7.1.116"),
        }
    version = pytest.importorskip("tensorrt_rtx_bindings").__version__
    return {
        "of_tensorrt": f"model.plan: built with TensorRT 10.15.1.29, here is only TensorRT-RTX {version}, which cannot "
        f"run it; pip install tensorrt==10.15.1.29, or rebuild it on the target with TensorRT-RTX {version}",
        "of_rtx": "device auto: no usable GPU (CUDA: cudaGetDeviceCount: CUDA driver version is insufficient for CUDA "
        "runtime version), and runtime tensorrt runs on nothing else; install NVIDIA's driver and give the server a "
        f"GPU, {ONNX_CPU}",
    }


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    if RTX:
        pytest.importorskip("cuda.bindings.runtime", reason="cuda-bindings is not installed")
    folder = tmp_path_factory.mktemp("tensorrt")
    said = {**detector_manifest(num_classes=real_plans.CLASSES), "runtime": "tensorrt"}
    plans = {
        "of_tensorrt": with_metadata(plan_bytes()),
        "of_rtx": with_metadata(real_plan(), {"imgsz": 32, "batch": 1}),
    }
    for name, plan in plans.items():
        package = write_package(folder / f"{name}.zip", said, {"model.plan": plan})
        assert main(["convert", str(package), "-o", str(folder / "repository")]) == 0
    graph = constant_graph({"score": np.array([0.25], np.float32)})
    package = write_package(folder / "other.zip", anomaly_manifest(), {"model.onnx": graph})
    assert main(["convert", str(package), "-o", str(folder / "repository")]) == 0
    with convertor_serve(folder / "repository") as running:
        yield running


def test_convert_refuses_the_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = {**detector_manifest(num_classes=real_plans.CLASSES), "runtime": "tensorrt"}
    package = write_package(tmp_path / "on_cpu.zip", said, {"model.plan": plan_bytes()})
    assert main(["convert", str(package), "-o", str(tmp_path / "repository"), "--device", "cpu"]) == 1
    assert "device: expected auto, gpu or tensorrt, got cpu; runtime tensorrt needs a GPU" in capsys.readouterr().err


@pytest.mark.parametrize("model", ["of_tensorrt", "of_rtx"])
def test_the_line(served: Served, model: str) -> None:
    if model == "of_rtx" and has_gpu():
        pytest.skip("there is a GPU here")
    assert served.reason(f"base_{model}") == expected()[model]


def test_the_others_serve(served: Served) -> None:
    assert {"other", "base_other"} <= served.models
