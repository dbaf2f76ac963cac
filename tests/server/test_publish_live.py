"""Publishing on the stock server: kills at every named step, and upgrades of a running server under load."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convertor.repository import steps
from convertor.serve.process import running_server
from tests.builders import constant_graph, detector_manifest, write_package, yolo_head
from tests.clients import Client
from tests.server.conftest import ROOT, convert

pytestmark = pytest.mark.server

IMAGE = np.zeros((32, 32, 3), np.uint8)
KILLED_CONVERT = """
import os, signal, sys
from convertor.cli import main
from convertor.repository import steps
last, do = sys.argv.pop(1), steps.run_step
def run_step(step):
    do(step)
    if step.name == last:
        os.kill(os.getpid(), signal.SIGKILL)
steps.run_step = run_step
sys.exit(main(sys.argv[1:]))
"""


def package(folder: Path, name: str, release: int) -> Path:
    """Return a package of a release; its answers carry the release in the confidence: 0.5 + release / 16."""
    manifest = {**detector_manifest(class_names=[f"release {release}"]), "model_name": name}
    head = yolo_head([(16, 16, 20, 20, 0, 0.5 + release / 16)], 1)
    return write_package(folder / f"{name}-{release}.zip", manifest, {"model.onnx": constant_graph({"output0": head})})


def answer(client: Client, name: str) -> tuple[int, int, str]:
    """Return (release by base's confidence, version by marshal, label) of one answer."""
    outputs = client.capture(name, IMAGE)
    capture: dict[str, Any] = json.loads(outputs["output_capture"].tobytes())
    release = round((float(outputs["output_confidence"][0]) - 0.5) * 16)
    return release, int(capture["eventMetadata"]["modelVersion"]), outputs["output_capture"].tobytes().decode()


def step_names(repository: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Publish and return the names of the steps that were taken."""
    names: list[str] = []
    do = steps.run_step

    def recording(step: steps.Step) -> None:
        names.append(step.name)
        do(step)

    monkeypatch.setattr(steps, "run_step", recording)
    convert(path, "-o", repository)
    monkeypatch.undo()
    return names


def kill_convert_after(step: str, path: Path, repository: Path) -> None:
    command = [sys.executable, "-c", KILLED_CONVERT, step, "convert", str(path), "-o", str(repository)]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert killed.returncode == -9, (step, killed.stderr)


@pytest.mark.slow
def test_kill_at_every_step_then_convert_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository, models = tmp_path / "repository", {}
    for kind in ("first", "upgrade"):
        rehearsal = tmp_path / f"rehearsal-{kind}"
        if kind == "upgrade":
            convert(package(tmp_path, "rehearsed", 1), "-o", rehearsal)
        # The model's name stands in the steps' names: rehearse with one, kill others at the same place.
        for number, step in enumerate(step_names(rehearsal, package(tmp_path, "rehearsed", 2), monkeypatch)):
            name = f"{kind}_{number}"
            if kind == "upgrade":
                convert(package(tmp_path, name, 1), "-o", repository)
            if step == "create repository" and repository.exists():
                continue
            kill_convert_after(step.replace("rehearsed", name), package(tmp_path, name, 2), repository)
            models[name] = kind
    assert len(models) >= 16
    with running_server(repository) as server, Client(server) as client:
        for name, kind in models.items():
            if name in server.ready:
                check_whole(answer(client, name), first_release=2 if kind == "first" else 1)
            else:
                assert kind == "first", (name, server.failed)
    for name in models:
        convert(package(tmp_path, name, 2), "-o", repository)
    with running_server(repository) as server, Client(server) as client:
        assert not server.failed
        for name, kind in models.items():
            release, _, _ = checked = answer(client, name)
            assert release == 2, name
            check_whole(checked, first_release=2 if kind == "first" else 1)


def check_whole(given: tuple[int, int, str], first_release: int) -> None:
    """Check that base's release and marshal's version belong to the same publish."""
    release, version, _ = given
    assert version == release - first_release + 1


class Load(threading.Thread):
    """A client that asks without a pause and keeps every answer."""

    def __init__(self, server: Any, name: str, stop: threading.Event) -> None:
        super().__init__()
        self.server, self.model, self.stop = server, name, stop
        self.answers: list[tuple[int, int]] = []
        self.errors: list[str] = []

    def run(self) -> None:
        with Client(self.server) as client:
            while not self.stop.is_set():
                try:
                    release, version, _ = answer(client, self.model)
                    self.answers.append((release, version))
                except Exception as error:
                    self.errors.append(str(error))


def loads(server: Any, stop: threading.Event) -> Iterator[Load]:
    for _ in range(3):
        load = Load(server, "live", stop)
        load.start()
        yield load


def test_two_upgrades_under_load_fail_no_request_and_mix_no_answer(tmp_path: Path) -> None:
    repository, stop = tmp_path / "repository", threading.Event()
    convert(package(tmp_path, "live", 1), "-o", repository)
    flags = ("--model-control-mode=poll", "--repository-poll-secs=1")
    with running_server(repository, *flags) as server:
        clients = list(loads(server, stop))
        try:
            for release in (2, 3):
                convert(package(tmp_path, "live", release), "-o", repository)
                deadline = time.monotonic() + 90
                while not all(load.answers and load.answers[-1] == (release, release) for load in clients):
                    assert time.monotonic() < deadline, [load.answers[-1:] for load in clients]
                    time.sleep(0.1)
        finally:
            stop.set()
            for load in clients:
                load.join()
    assert [load.errors for load in clients] == [[], [], []]
    for load in clients:
        assert {release for release, _ in load.answers} == {1, 2, 3}
        assert all(release == version for release, version in load.answers)
        assert load.answers == sorted(load.answers)
