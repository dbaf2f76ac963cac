"""The image's files agree with the payload, with `convertor serve` and with each other."""

from __future__ import annotations

import fnmatch
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from convertor import payload, plan
from convertor.serve import process
from convertor.serve.embedded import Installation
from tests.docker.image import DOCKER, REQUIREMENT_FILES, ROOT, arguments, command, requirements, values


def name_of(requirement: str) -> str:
    return re.split(r"[<>=!~;\[ ]", requirement)[0]


@pytest.fixture(scope="module")
def check_image() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_image", DOCKER / "check_image.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_image_has_what_converted_onnx_models_require() -> None:
    engine = payload.requirements(payload.RUNTIMES / "onnx")
    needed = {name_of(line) for line in plan.PAYLOAD_REQUIREMENTS + engine}
    assert {name_of(line) for line in requirements("requirements.txt")} == needed


def test_the_image_takes_the_ranges_that_are_tested() -> None:
    tomllib = pytest.importorskip("tomllib", reason="python 3.11 or newer")
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["serve"]
    assert sorted(requirements("requirements.txt")) == sorted(r for r in extra if name_of(r) != "nvidia-pytriton")


@pytest.mark.parametrize("name", [name for name in REQUIREMENT_FILES if "cuda" in name])
def test_gpu_images_differ_in_the_engine_only(name: str) -> None:
    cpu, gpu = ({name_of(line): line for line in requirements(file)} for file in ("requirements.txt", name))
    assert "onnxruntime" not in gpu
    del cpu["onnxruntime"], gpu["onnxruntime-gpu"]
    assert gpu == cpu


def test_the_server_runs_with_the_flags_of_serve() -> None:
    installation = Installation(Path("tritonserver"), {}, (), embedded=False)
    serve = process._command(installation, Path("/models"), ["127.0.0.1:1"] * 3, "prefix", ())
    own = r"--(http|grpc|metrics)-(address|port)=|--backend-config=python,shm-region-prefix-name="
    assert command() == [part for part in serve if not re.match(own, part)]


def test_polling_adds_to_the_images_flags() -> None:
    listed = re.findall(r"^      - (.*)$", (DOCKER / "compose.poll.yaml").read_text(), re.MULTILINE)
    assert listed == [*command(), "--model-control-mode=poll", "--repository-poll-secs=5"]


def test_nobody_is_root() -> None:
    assert values("USER") == ["1000:1000"]


def test_the_engine_tells_nobody() -> None:
    assert "ORT_DISABLE_TELEMETRY=1" in values("ENV")


def test_the_build_sees_what_it_copies() -> None:
    allowed = [line[1:] for line in (DOCKER / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    (copied,) = values("COPY")
    for name in [arguments()["REQUIREMENTS"], *REQUIREMENT_FILES, "check_image.py"]:
        assert any(fnmatch.fnmatch(name, pattern) for pattern in allowed), name
        assert any(fnmatch.fnmatch(name, pattern) for pattern in copied.split()[:-1]), name


def test_one_release_everywhere() -> None:
    release = arguments()["TRITON_RELEASE"]
    for name in ("compose.yaml", "compose.gpu.yaml"):
        assert set(re.findall(r"TRITON_RELEASE:-([\d.]+)", (DOCKER / name).read_text())) == {release}
    assert f"| `{release}` (default)" in (DOCKER / "README.md").read_text()


LDD = """
	linux-vdso.so.1 (0x00007ffd)
	libcublas.so.13 => not found
	libcuda.so.1 => not found
	libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)
"""


def test_missing_libraries(check_image: ModuleType) -> None:
    assert check_image.missing_libraries(LDD) == ["libcublas.so.13"]


@pytest.mark.parametrize(
    ("requirements_text", "version", "expected"),
    [
        pytest.param("onnxruntime", "1.26.4", [], id="fits"),
        pytest.param("onnxruntime", "2.0.0", ["NumPy 2.0.0: "], id="NumPy 2"),
        pytest.param("onnxruntime-gpu", "1.26.4", ["onnxruntime has no CUDA part: "], id="no CUDA part"),
    ],
)
def test_problems(
    check_image: ModuleType, monkeypatch: pytest.MonkeyPatch, requirements_text: str, version: str, expected: list[str]
) -> None:
    monkeypatch.setattr("numpy.__version__", version)
    found = check_image.problems(requirements_text)
    assert len(found) == len(expected)
    assert all(line.startswith(start) for line, start in zip(found, expected))


def test_an_absent_module_is_one_line(check_image: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    (line,) = check_image.problems("onnxruntime")
    assert line.startswith("cv2 cannot be imported: ")


def test_cuda_libraries_of_another_version(
    check_image: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = tmp_path / "provider.so"
    provider.touch()
    ldd = tmp_path / "ldd"
    ldd.write_text(f"#!/bin/sh\ncat <<'END'\n{LDD}END\n")
    ldd.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (line,) = check_image.cuda_problems(provider)
    assert line.startswith("onnxruntime-gpu needs libcublas.so.13, which")
