"""One stock server for every test that needs no server of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import demo.model
import demo.run
from convertor.cli import main
from convertor.serve.process import Server, running_server
from tests.builders import anomaly_manifest, constant_graph, detector_manifest, write_package, yolo_head
from tests.clients import Client
from tests.convertor.infer.colour_probe import write_probe

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = {path.stem: json.loads(path.read_text()) for path in (ROOT / "tests/data/capture").glob("*.json")}
GOLDEN_CLASSES = {0: "bolt", 17: "gasket"}


def golden_packages(folder: Path) -> dict[str, Path]:
    """Return package paths whose graphs give exactly the golden files' base outputs for a 240 x 320 image."""
    names = [GOLDEN_CLASSES.get(index, f"part {index}") for index in range(18)]
    # Network pixels of a 320 x 240 (height x width) input: the image itself, so that nothing is rounded.
    size = {"input_shape": [1, 3, 320, 240]}
    found = yolo_head([(60.375, 120, 99.75, 200, 17, 0.9375), (25, 30, 50, 60, 0, 0.5)], 18)
    detector = detector_manifest(class_names=names)
    detector["model_graph"]["stages"][0].update(size)
    mask = np.zeros((1, 2, 320, 240), np.float32)
    mask[0, 1].flat[: 320 * 240 // 80] = 1  # 1.25 % of the image
    mask[0, 0] = 0.5
    segmenter = {"score": np.array([0.875], np.float32), "pixels": mask}
    shape = (1, 3, 320, 240)
    return {
        "detection-found": write_package(
            folder / "detection_found.zip", detector, {"model.onnx": constant_graph({"output0": found}, shape)}
        ),
        "detection-none": write_package(
            folder / "detection_none.zip", detector, {"model.onnx": constant_graph({"output0": found * 0}, shape)}
        ),
        "anomaly-with-mask": write_package(
            folder / "anomaly_with_mask.zip",
            anomaly_manifest(["background", "scratch"], **size),
            {"model.onnx": constant_graph(segmenter, shape)},
        ),
        "anomaly-without-mask": write_package(
            folder / "anomaly_without_mask.zip",
            anomaly_manifest(**size),
            {"model.onnx": constant_graph({"score": np.array([0.25], np.float32)}, shape)},
        ),
    }


def convert(*arguments: object) -> None:
    """Run `convertor convert` and insist on success."""
    assert main(["convert", *map(str, arguments)]) == 0


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository: golden models (version 3), the demo's detector, the colour probe, the trained packages."""
    folder = tmp_path_factory.mktemp("packages")
    target = tmp_path_factory.mktemp("served") / "model_repository"
    convert(*golden_packages(folder).values(), "-o", target, "--version", "3")
    doclayout = folder / "doclayout.zip"
    demo.run.pack(demo.model.fetch()[0], doclayout)
    convert(doclayout, write_probe(folder / "colour_probe.zip"), "-o", target)
    trained = sorted((ROOT / "tests/packages").glob("*/manifest.json"))
    if trained:
        convert(*(manifest.parent for manifest in trained), "-o", target)
    return target


@pytest.fixture(scope="session")
def server(repository: Path) -> Iterator[Server]:
    """Run the stock server on `repository` for the whole session."""
    with running_server(repository) as running:
        assert not running.failed
        yield running


@pytest.fixture(params=["http", "grpc"])
def client(request: pytest.FixtureRequest, server: Server) -> Iterator[Client]:
    """Return a client of each protocol in turn."""
    with Client(server, request.param) as connected:
        yield connected
