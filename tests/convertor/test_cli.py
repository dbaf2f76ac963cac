"""The commands as processes of their own: entry points, imports, pipes that close, streams that cannot take more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from convertor import cli
from tests.convertor.packages import onnx_bytes, tree, write_zip, yolo_manifest

ROOT = Path(__file__).parents[2]
CONVERT = ["-c", "import sys; from convertor.cli import convert_main; sys.exit(convert_main())"]
CONVERTOR = ["-c", "import sys; from convertor.cli import main; sys.exit(main())"]
MODULE = ["-m", "convertor"]


def run(
    work: Path, *arguments: str, stdout: int | None = None, stderr: int | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python in `work` with the checkout on its path; a stream that is not given is captured."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=work,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if stdout is None else stdout,
        stderr=subprocess.PIPE if stderr is None else stderr,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def work(tmp_path: Path) -> Path:
    write_zip(tmp_path / "p.zip", yolo_manifest())
    return tmp_path


@pytest.fixture
def closed_pipe() -> int:
    """The writing end of a pipe that nobody reads any more."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(CONVERT, id="convert"),
        pytest.param([*CONVERTOR, "convert"], id="convertor convert"),
        pytest.param([*MODULE, "convert"], id="python -m convertor convert"),
    ],
)
def test_every_entry_point_converts_and_passes_its_status_on(work: Path, command: list[str]) -> None:
    done = run(work, *command, "p.zip", "-o", "models", "--json")
    assert (done.returncode, json.loads(done.stdout)[0]["name"]) == (0, "p")
    assert run(work, *command, "no.zip", "-o", "models").returncode == 1
    assert run(work, *command, "p.zip").returncode == 2


def test_the_console_scripts_are_these_functions() -> None:
    declared = (ROOT / "pyproject.toml").read_text("utf-8")
    assert 'convert = "convertor.cli:convert_main"' in declared
    assert 'convertor = "convertor.cli:main"' in declared


@pytest.mark.parametrize("command", [CONVERTOR, MODULE], ids=["convertor", "python -m convertor"])
def test_version(work: Path, command: list[str]) -> None:
    done = run(work, *command, "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("convertor ")


SLOW = ("numpy", "grpc", "onnx", "onnxruntime", "cv2", "rich", "importlib.metadata", "asyncio", "http")


def test_convert_imports_nothing_slow(work: Path) -> None:
    code = (
        "import json, sys; from convertor.cli import convert_main; status = convert_main(sys.argv[1:]); "
        "print(json.dumps([status, sorted(sys.modules)]))"
    )
    status, modules = json.loads(run(work, "-c", code, "p.zip", "-o", "models").stdout)
    assert status == 0
    assert [name for name in modules if name in SLOW] == []
    assert "convertor.serve" not in modules


@pytest.mark.parametrize("arguments", [["--json"], ["--dry-run"], ["--dry-run", "--json"]])
def test_a_reader_of_the_data_that_goes_away_is_no_failure(work: Path, closed_pipe: int, arguments: list[str]) -> None:
    done = run(work, *CONVERT, "p.zip", "-o", "models", *arguments, stdout=closed_pipe)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert (work / "models").exists() == ("--dry-run" not in arguments)


def test_a_reader_of_the_lines_that_goes_away_does_not_stop_the_work(work: Path, closed_pipe: int) -> None:
    write_zip(work / "q.zip", yolo_manifest(unknown_key=1, serving={"unknown": 1}))
    done = run(work, *CONVERT, "p.zip", "q.zip", "-o", "models", "--json", stderr=closed_pipe)
    assert done.returncode == 0
    assert [one["name"] for one in json.loads(done.stdout)] == ["p", "q"]
    assert {"p", "q"} <= {path.name for path in (work / "models").iterdir()}


def test_a_refusal_that_nobody_reads_is_still_a_refusal(work: Path, closed_pipe: int) -> None:
    assert run(work, *CONVERT, "no.zip", "-o", "models", stderr=closed_pipe).returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_data_that_cannot_be_written_is_one_line(work: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = run(work, *CONVERT, "p.zip", "-o", "models", "--dry-run", stdout=full.fileno())
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "error: stdout: cannot be written (No space left on device); free some space"


def test_names_that_the_terminals_encoding_lacks(work: Path) -> None:
    write_zip(work / "q.zip", yolo_manifest(), {"model.onnx": onnx_bytes(), "模型.txt": b"x"})
    done = run(work, *CONVERT, "q.zip", "-o", "models", "--dry-run", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "\\u6a21\\u578b.txt" in done.stdout
    done = run(work, *CONVERT, "没有.zip", "-o", "models", PYTHONIOENCODING="ascii")
    assert done.returncode == 1
    assert "\\u6ca1\\u6709.zip" in done.stderr


def test_a_dry_run_makes_no_folders(work: Path) -> None:
    before = tree(work)
    assert run(work, *CONVERT, "p.zip", "-o", "deep/er/models", "--dry-run").returncode == 0
    assert tree(work) == before


def test_an_output_that_is_an_empty_text_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        cli.convert_main(["package.zip", "-o", ""])
    assert ended.value.code == 2
    assert "got an empty text" in capsys.readouterr().err
