"""A package as there are thousands, without a word about its engine, on the stock server with the real library."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convertor.cli import main
from runtimes.dlr.tests import neo
from tests.builders import write_package
from tests.clients import Client

pytestmark = pytest.mark.server


class Served:
    """Where a `convertor serve` of another process listens, and what it told on stderr."""

    def __init__(self, lines: list[str], log: Path) -> None:
        found = dict(line.split(maxsplit=1) for line in lines)
        self.http_url = found["http"].removeprefix("http://")
        self.grpc_url = found["grpc"]
        self.log = log


def manifest(**stage: Any) -> dict[str, Any]:
    """B104: no runtime, no task, a code name under `type`, index 0 of two softmaxed neurons is the anomaly."""
    return {
        "model_graph": {
            "model_graph_type": "single_stage_model_graph",
            "stages": [
                {"type": "mochi", "threshold": 0.702, "normalize": False, "class_normal_ids": [1], "calibrated": True}
                | stage
            ],
            "image_level_classes": {"names": ["anomaly", "normal"], "normal_ids": [1]},
            "pixel_level_classes": {"names": [], "normal_ids": []},
        },
        "dataset": {"image_width": 2, "image_height": 1, "name": "x"},
    }


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, library: bytes, python: Path) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("dlr")
    # A grey image of one row and two columns is the head itself: no kernels, so no compiler is needed.
    good = {**neo.copier((1, 1, 1, 2), out=(1, 2)).files(library), "libdlr.so": library}
    packages = {
        "neurons": (manifest(input_shape=[1, 1, 1, 2]), good),
        "without": (manifest(input_shape=[1, 1, 1, 2]), {k: v for k, v in good.items() if k != "libdlr.so"}),
        "on_gpu": ({**manifest(input_shape=[1, 1, 1, 2]), "device": "gpu"}, good),
    }
    if neo.compiler():
        files = {**neo.distance(32, 32).files(neo.compiled(folder / "k.so")), "libdlr.so": library}
        packages["distance"] = (manifest(input_shape=[1, 3, 32, 32], threshold=0.1), files)
    for name, (said, files) in packages.items():
        path = write_package(folder / f"{name}.zip", said, {f"mochi/{file}": data for file, data in files.items()})
        assert main(["convert", str(path), "-o", str(folder / "repository")]) == 0
    ports = [f"--{service}-port=0" for service in ("http", "grpc", "metrics")]
    with (folder / "stderr").open("wb") as told:
        process = subprocess.Popen(
            [python, "-m", "convertor", "serve", folder / "repository", *ports],
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
        )
    assert process.stdout is not None
    try:
        yield Served([process.stdout.readline() for _ in range(4)], folder / "stderr")
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize(
    ("neurons", "anomalous", "confidence"),
    [
        pytest.param((212, 43), 1, 212 / 255, id="0.83 is an anomaly"),
        pytest.param((26, 229), 0, 1 - 26 / 255, id="0.10 is normal"),
    ],
)
def test_b104_verdicts_of_a_real_package(
    served: Served, neurons: tuple[int, int], anomalous: int, confidence: float
) -> None:
    with Client(served) as client:
        outputs = client.capture("neurons", np.array(neurons, np.uint8).reshape(1, 2, 1))
    assert outputs["output_anomalous"].tolist() == [anomalous]
    np.testing.assert_allclose(outputs["output_confidence"], [confidence], atol=1e-6)


def test_a_model_with_kernels(served: Served) -> None:
    if neo.compiler() is None:
        pytest.skip("no C compiler here")
    image = np.random.default_rng(1).integers(0, 255, (32, 32, 3), np.uint8)
    planes = image.transpose(2, 0, 1)[None].astype(np.float32) / np.float32(255)
    (score,) = neo.distance_reference(planes)[1].ravel()
    with Client(served, "http") as client:
        outputs = client.infer("base_distance", {"input": image})
    np.testing.assert_allclose(outputs["output_score"], [score], atol=1e-5)
    assert outputs["output"].tolist() == [int(score >= 0.1)]


def test_models_that_fail_say_why_and_the_others_serve(served: Served) -> None:
    told = served.log.read_text()
    assert "not served: base_without: no libdlr.so in the package, and none in the server's python (" in told
    assert "not served: base_on_gpu: device gpu: compiled.so was compiled for cpu; " in told
    assert "not served: base_neurons" not in told
