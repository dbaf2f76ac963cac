"""A decoder is added, and every other family removed, in a copy of the checkout; both serve.

The new family is the one that docs/families.md walks through: its files and its manifest are taken from that page.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from convertor.serve.process import Server, running_server
from tests.builders import constant_graph, detector_manifest, write_package, yolo_head
from tests.clients import Client, detected
from tests.server.conftest import ROOT

pytestmark = [pytest.mark.server, pytest.mark.slow]

PAGE = (ROOT / "docs" / "families.md").read_text("utf-8")
FILES = dict(re.findall(r"^`(postprocessors/peaks/\S+)`:\n\n```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))
(MANIFEST,) = re.findall(r"^```json\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
COPIED = ("convertor", "templates", "runtimes", "postprocessors", "tests/stubs", "tests/payload/test_import_rules.py")


def copy_of_the_checkout(folder: Path) -> Path:
    for name in COPIED:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "_payload", "tests"))
        else:
            shutil.copy(source, target)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def run(folder: Path, *arguments: object) -> None:
    """Run a Python module in a copy, which comes before the checkout that is installed."""
    command = [sys.executable, "-m", *map(str, arguments)]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def remove_families(folder: Path, *kept: str) -> None:
    for support in [*folder.glob("runtimes/*/support.py"), *folder.glob("postprocessors/*/support.py")]:
        if support.parent.name not in kept:
            shutil.rmtree(support.parent)


def peaks_package(path: Path) -> Path:
    scores = np.zeros((1, 2, 4, 6), np.float32)
    scores[0, 1, 1, 2], scores[0, 1, 1, 3], scores[0, 0, 3, 5] = 0.5, 0.375, 0.75
    sizes = np.full((1, 2, 4, 6), 8, np.float32)
    sizes[:, 1] = 4
    graph = constant_graph({"scores": scores, "sizes": sizes}, (1, 3, 32, 48))
    return write_package(path, json.loads(MANIFEST), {"model.onnx": graph})


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with one family more, whose files are the page's."""
    folder = copy_of_the_checkout(tmp_path_factory.mktemp("grown"))
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


@pytest.fixture(scope="module")
def repository(grown: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What three checkouts converted: grown, with the new family alone, with YOLO alone."""
    work = tmp_path_factory.mktemp("work")
    repository = work / "model_repository"
    peaks = peaks_package(work / "peaks.zip")
    run(grown, "convertor", "convert", peaks, "-o", repository)
    alone = work / "alone"
    shutil.copytree(grown, alone)
    remove_families(alone, "peaks", "onnx")
    run(alone, "convertor", "convert", peaks, "-o", repository, "--name", "peaks_alone")
    yolo = copy_of_the_checkout(work / "yolo")
    remove_families(yolo, "yolo", "onnx")
    head = constant_graph({"output0": yolo_head([(16, 16, 8, 4, 1, 0.75)], 2)})
    package = write_package(work / "yolo.zip", detector_manifest(num_classes=2), {"model.onnx": head})
    run(yolo, "convertor", "convert", package, "-o", repository, "--name", "yolo_alone")
    return repository


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[Server]:
    with running_server(repository) as running:
        assert not running.failed
        yield running


def test_the_page_has_a_whole_family() -> None:
    names = ("__init__.py", "support.py", "decode.py", "tests/test_decode.py")
    assert sorted(FILES) == sorted(f"postprocessors/peaks/{name}" for name in names)


def test_its_own_tests_pass_and_it_keeps_the_rules(grown: Path) -> None:
    run(grown, "pytest", "-p", "no:cacheprovider", "postprocessors/peaks/tests", "tests/payload/test_import_rules.py")


@pytest.mark.parametrize("model", ["peaks", "peaks_alone"])
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_the_new_family_is_served(server: Server, model: str, protocol: str) -> None:
    """Cells of 8 pixels; the image is twice as large as the network. The neighbour of a peak is none."""
    with Client(server, protocol) as client:
        found = detected(client.capture(model, np.zeros((64, 96, 3), np.uint8)))
    assert found == [[80, 52, 96, 60, 0.75, 0], [32, 20, 48, 28, 0.5, 1]]


def test_a_family_without_siblings_is_served(server: Server) -> None:
    with Client(server) as client:
        found = detected(client.capture("yolo_alone", np.zeros((32, 32, 3), np.uint8)))
    assert found == [[12, 14, 20, 18, 0.75, 1]]


def test_nothing_of_the_siblings_is_there(repository: Path) -> None:
    """What was removed was not copied from anywhere else either."""
    families = {
        path.relative_to(repository).parts[0]: sorted(file.parent.name for file in path.glob("*/decode.py"))
        for path in repository.glob("base_*/1/postprocessors")
    }
    assert families == {"base_peaks": ["peaks"], "base_peaks_alone": ["peaks"], "base_yolo_alone": ["yolo"]}


def test_the_new_family_refuses_in_its_own_words(grown: Path, tmp_path: Path) -> None:
    manifest = json.loads(MANIFEST)
    manifest["detection"]["peak_radius"] = 99
    package = write_package(tmp_path / "peaks.zip", manifest, {"model.onnx": constant_graph({"scores": np.zeros(2)})})
    command = [sys.executable, "-m", "convertor", "convert", package, "-o", tmp_path / "out"]
    ran = subprocess.run(command, cwd=grown, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "detection.peak_radius: expected a whole number from 1 to 16, got 99; correct it" in ran.stderr
    assert "expected outputs [B, 2, h, w] and [B, 2, h, w], got [2] from the graph" in ran.stderr
