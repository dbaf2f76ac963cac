"""The runner on a fake engine, with a fake GPU, and where there is a real one with that too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtimes.contract import RunnerOptions
from runtimes.tensorrt.runner import TensorRtRunner, create
from runtimes.tensorrt.tests.fakes import FakeCuda, FakeEngine, FakeTrt, RealCuda, save_plan


def real_cuda() -> Any:
    """Return cuda.bindings.runtime if it is installed and sees a GPU."""
    runtime: Any = pytest.importorskip("cuda.bindings.runtime", reason="cuda-bindings is not installed")
    error, count = runtime.cudaGetDeviceCount()
    if int(error) or not count:
        pytest.skip("no GPU here")
    return RealCuda(runtime)


@pytest.fixture(params=["fake", "gpu"])
def cuda(request: pytest.FixtureRequest) -> Any:
    return FakeCuda() if request.param == "fake" else real_cuda()


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a function that loads an engine as a package's plan; what it loaded is closed at the end."""
    loaded: list[TensorRtRunner] = []

    def load_engine(engine: FakeEngine, trt: FakeTrt | None = None, **options: Any) -> TensorRtRunner:
        monkeypatch.setitem(sys.modules, "tensorrt", trt or FakeTrt(engine))
        monkeypatch.setitem(sys.modules, "cuda.bindings.runtime", engine.cuda)
        loaded.append(create(RunnerOptions(save_plan(tmp_path), **options)))
        return loaded[-1]

    yield load_engine
    for runner in loaded:
        runner.close()
