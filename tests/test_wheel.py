"""The built wheel, installed in an empty environment away from the checkout, does the main job."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
import tomllib

from tests.builders import constant_graph, detector_manifest, write_package, yolo_head

ROOT = Path(__file__).resolve().parents[1]


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_the_package_and_its_payload_only(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"convertor"}
    for name in ("templates/base/config.pbtxt.j2", "runtimes/onnx/support.py", "postprocessors/yolo/decode.py"):
        assert f"convertor/_payload/{name}" in names
    assert not [name for name in names if "/tests/" in name or name.endswith(".pyc")]


def lowest() -> list[str]:
    """Return pyproject's dependencies at the oldest versions that it allows."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return [requirement.replace(">=", "==") for requirement in table["project"]["dependencies"]]


@pytest.mark.parametrize(
    "constraints", [pytest.param([], id="newest"), pytest.param(lowest(), id="lowest", marks=pytest.mark.slow)]
)
def test_the_installed_wheel_converts(wheel: Path, tmp_path: Path, constraints: list[str]) -> None:
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty/bin/python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, *constraints, cwd=tmp_path)
    graph = constant_graph({"output0": yolo_head([(16, 16, 8, 8, 0, 0.9)], 1)})
    package = write_package(tmp_path / "cam.zip", detector_manifest(class_names=["bolt"]), {"model.onnx": graph})
    printed = run(tmp_path / "empty/bin/convert", package, "-o", "repository", "--json", cwd=tmp_path)
    assert json.loads(printed)[0]["models"] == ["base_cam", "marshal_cam", "cam"]
    assert (tmp_path / "repository/base_cam/1/postprocessors/yolo/decode.py").is_file()
    assert not list((tmp_path / "repository").rglob("support.py"))
    run(python, "-m", "convertor", "convert", package, "-o", "repository", "--name", "again", cwd=tmp_path)
    imported = run(python, "-c", "import convertor; print(convertor.__file__)", cwd=tmp_path)
    assert str(ROOT) not in imported
