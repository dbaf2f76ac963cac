"""The real library for the tests of this folder, in this process and in others."""

from __future__ import annotations

import importlib.util
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtimes.contract import RunnerError, RunnerOptions, make_runner
from runtimes.dlr.tests import neo, wheels

Load = Callable[..., Any]
# Where only the payload's own tests run, on any Python that the payload supports, the tool cannot.
collect_ignore = [] if importlib.util.find_spec("tritonclient") else ["test_served.py", "test_support.py"]


@pytest.fixture(scope="session")
def library() -> bytes:
    """libdlr.so; the registry has it for one platform."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("libdlr.so on PyPI is for Linux on x86-64")
    return wheels.library().read_bytes()


@pytest.fixture(scope="session")
def wrapper(library: bytes) -> Iterator[None]:
    """`import dlr` works in this process."""
    del library
    sys.path.append(str(wheels.wrapper()))
    yield
    sys.path.remove(str(wheels.wrapper()))


@pytest.fixture
def load(tmp_path: Path, library: bytes, wrapper: None) -> Load:
    """Return a function that loads a model; without kernels of its own, libdlr.so stands for them."""

    def load_model(model: neo.Model, kernels: bytes = library, bundled: bytes | None = library, **options: Any) -> Any:
        files = {**model.files(kernels), **options.pop("files", {})}
        if bundled is not None:
            files["libdlr.so"] = bundled
        kept = {name: content for name, content in files.items() if content is not None}
        folder = tmp_path / options.pop("folder", "artifact")
        return make_runner("dlr", RunnerOptions(neo.save(folder, kept), **options))

    return load_model


@pytest.fixture
def refused(load: Load) -> Callable[..., str]:
    """Return a function that returns the line with which a model is refused; it takes what `load` takes."""

    def refused_line(model: neo.Model, **options: Any) -> str:
        with pytest.raises(RunnerError) as caught:
            load(model, **options)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return refused_line


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory, library: bytes) -> bytes:
    """Compiled kernels."""
    del library
    if neo.compiler() is None:
        pytest.skip("no C compiler here")
    return neo.compiled(tmp_path_factory.mktemp("kernels") / "compiled.so")


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory, library: bytes) -> Path:
    """A python that has dlr, as after `pip install --no-deps dlr==1.10.0`."""
    del library
    return wheels.environment(tmp_path_factory.mktemp("python") / "venv")
