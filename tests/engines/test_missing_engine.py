"""A server whose python lacks an engine: only models that ask for it fail, with the line that says what to install."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from runtimes.dlr.tests import neo, wheels
from tests.builders import anomaly_manifest, constant_graph, write_package
from tests.clients import Client
from tests.engines import needs, pythons
from tests.engines.failures import plan
from tests.engines.serving import Served, convertor_serve
from tests.server.conftest import ROOT, convert

needs.need("pytriton", "onnxruntime")

pytestmark = pytest.mark.server

IMAGE = np.zeros((1, 2, 1), np.uint8)
MODELS = ("onnx", "pytorch", "dlr", "tensorrt", "no_library")
OTHERS = ("torch", "functorch", "tensorrt")
Started = tuple[Served, Path]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One model per engine."""
    folder = tmp_path_factory.mktemp("missing")
    library = wheels.library().read_bytes()
    # The image is the score: no kernels, so no compiler is needed.
    compiled = {**neo.copier((1, 1, 1, 2), out=(1, 2)).files(library), "libdlr.so": library}
    manifests = {
        "onnx": anomaly_manifest(),
        "pytorch": {**anomaly_manifest(), "runtime": "pytorch", "runtime_artifact": "script.pt"},
        "tensorrt": {**anomaly_manifest(), "runtime": "tensorrt"},
        "dlr": {"model_graph": {"stages": [{"type": "mochi", "input_shape": [1, 1, 1, 2]}]}},
    }
    manifests["pytorch"]["model_graph"]["stages"][0]["input_shape"] = [1, 3, 4, 6]
    files = {
        "onnx": {"model.onnx": constant_graph({"score": np.array([0.25], np.float32)})},
        "pytorch": {"script.pt": (ROOT / "runtimes/pytorch/tests/data/script.pt").read_bytes()},
        "dlr": compiled,
        "tensorrt": {"model.plan": plan()},
    }
    packages = [write_package(folder / f"{name}.zip", manifests[name], files[name]) for name in files]
    convert(*packages, "-o", folder / "repository")
    without_library = {name: content for name, content in compiled.items() if name != "libdlr.so"}
    convert(write_package(folder / "no_library.zip", manifests["dlr"], without_library), "-o", folder / "repository")
    return folder / "repository"


@pytest.fixture(scope="module")
def only_onnx(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[Started]:
    python = pythons.without(tmp_path_factory.mktemp("python") / "venv", "dlr", *OTHERS)
    with convertor_serve(repository, python) as served:
        yield served, python


@pytest.fixture(scope="module")
def only_dlr(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[Started]:
    folder = tmp_path_factory.mktemp("python") / "venv"
    python = pythons.without(folder, "onnxruntime", *OTHERS, beside=[wheels.wrapper()])
    with convertor_serve(repository, python) as served:
        yield served, python


INSTALL = "; in the server's python: {python} -m pip install -r {repository}/{model}/1/requirements.txt"
NO_TORCH = "runtime pytorch: torch is not usable in the server's python (No module named 'torch'); pip install torch"
NO_DLR = (
    "runtime dlr needs the dlr package, not usable in the server's python (No module named 'dlr'); "
    "pip install --no-deps dlr==1.10.0"
)
NO_ONNX = (
    "runtime onnx: onnxruntime is not usable in the server's python (No module named 'onnxruntime'); "
    "pip install onnxruntime"
)
NO_TENSORRT = (
    "runtime tensorrt: tensorrt_rtx is not usable in the server's python (not installed); "
    "pip install tensorrt-rtx==1.7.1.116"
)
NO_LIBRARY = (
    "no libdlr.so in the package, and none in the server's python ({prefix}/dlr): "
    "pack the one for this device beside compiled.so"
)


@pytest.mark.parametrize(
    ("server", "model", "line"),
    [
        pytest.param("only_onnx", "pytorch", NO_TORCH + INSTALL, id="pytorch-without-torch"),
        pytest.param("only_onnx", "dlr", NO_DLR + INSTALL, id="B102-dlr-without-its-wrapper"),
        pytest.param("only_onnx", "tensorrt", NO_TENSORRT, id="tensorrt-without-its-library"),
        pytest.param("only_dlr", "onnx", NO_ONNX + INSTALL, id="onnx-without-onnxruntime"),
        pytest.param("only_dlr", "no_library", NO_LIBRARY, id="B102-dlr-without-its-library"),
    ],
)
def test_the_line_says_what_to_install(
    request: pytest.FixtureRequest, repository: Path, server: str, model: str, line: str
) -> None:
    served, python = request.getfixturevalue(server)
    expected = line.format(python=python, repository=repository, model=f"base_{model}", prefix=python.parents[1])
    assert served.reason(f"base_{model}") == expected
    assert served.reason(model) == f"needs base_{model}, which failed"


@pytest.mark.parametrize(("server", "model"), [("only_onnx", "onnx"), ("only_dlr", "dlr")])
def test_the_others_serve(request: pytest.FixtureRequest, server: str, model: str) -> None:
    served, _ = request.getfixturevalue(server)
    assert served.models == {model, f"base_{model}", *(f"marshal_{name}" for name in MODELS)}
    with Client(served) as client:
        assert client.capture(model, IMAGE)["output_anomalous"].tolist() == [0]
