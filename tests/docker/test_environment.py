"""The Dockerfile's own install step, run in an empty environment, and a converted model served from there."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from convertor.cli import main
from tests.builders import constant_graph, detector_manifest, write_package, yolo_head
from tests.clients import Client, detected
from tests.docker.image import ROOT, arguments, copy_into, install_step
from tests.server.processes import children

pytestmark = [pytest.mark.slow, pytest.mark.server]

# Runs with the empty environment's python, which has the image's packages only; the tool comes from the checkout.
SERVE = """
import json, sys
from pathlib import Path
from convertor.serve.process import running_server
with running_server(Path(sys.argv[1])) as server:
    told = dict(http_url=server.http_url, grpc_url=server.grpc_url, ready=server.ready, failed=dict(server.failed))
    print(json.dumps({**told, "pid": server.process.pid}), flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment in which the Dockerfile's COPY and RUN were carried out."""
    folder = tmp_path_factory.mktemp("image")
    venv.create(folder / "venv", with_pip=True)
    copy_into(folder)
    path = f"{folder / 'venv/bin'}:{os.environ['PATH']}"
    variables = {**os.environ, **arguments(), "PATH": path}
    done = subprocess.run(["sh", "-c", install_step()], cwd=folder, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("check_image: numpy, opencv and onnxruntime fit together\n")
    return folder / "venv"


@pytest.fixture(scope="module")
def served(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """Run the stock server on a converted detector; models run in `environment`."""
    folder = tmp_path_factory.mktemp("repository")
    graph = constant_graph({"output0": yolo_head([(16, 16, 8, 8, 0, 0.75)], 1)})
    package = write_package(folder / "cam.zip", detector_manifest(class_names=["bolt"]), {"model.onnx": graph})
    assert main(["convert", str(package), "-o", str(folder / "models")]) == 0
    python = str(environment / "bin/python")
    server = f"nvidia-pytriton=={importlib.metadata.version('nvidia-pytriton')}"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", server]
    subprocess.run(pip, check=True)
    command = [python, "-c", SERVE, str(folder / "models")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        line = process.stdout.readline()
        assert line, process.stderr.read()
        try:
            yield SimpleNamespace(**json.loads(line))
        finally:
            process.stdin.close()


def test_a_converted_model_answers(served: SimpleNamespace, environment: Path) -> None:
    assert (served.ready, served.failed) == (["base_cam", "cam", "marshal_cam"], {})
    with Client(served) as client:
        outputs = client.capture("cam", np.full((32, 32, 3), 90, np.uint8))
    assert detected(outputs) == [[12, 12, 20, 20, 0.75, 0]]
    maps = "".join(Path(f"/proc/{pid}/maps").read_text() for pid in children(served.pid))
    (packages,) = environment.glob("lib/python3*/site-packages")
    assert all(f"{packages}/{package}" in maps for package in ("numpy", "cv2", "onnxruntime"))
