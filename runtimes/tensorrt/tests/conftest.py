"""The runner on a fake engine, with a fake GPU, and where there is a real one with that too."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtimes.contract import RunnerOptions
from runtimes.tensorrt.runner import TensorRtRunner, create
from runtimes.tensorrt.tests.fake_cuda import FakeCuda, RealCuda
from runtimes.tensorrt.tests.fakes import FakeEngine, FakeTrt, save_plan
from runtimes.tensorrt.tests.gpu import has_gpu


@pytest.fixture(params=["fake", "gpu"])
def cuda(request: pytest.FixtureRequest) -> Any:
    if request.param == "fake":
        return FakeCuda()
    if not has_gpu():
        pytest.skip("no cuda-bindings or no GPU here")
    return RealCuda(importlib.import_module("cuda.bindings.runtime"))


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
