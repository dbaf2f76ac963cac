"""What DLR does to its process: telemetry, threads, CPUs, which libdlr.so; each in a fresh python."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runtimes.dlr.tests import neo, wheels
from tests.engines import pythons

LOAD = """
import json, os, sys, logging
from pathlib import Path
import numpy as np
from runtimes.contract import RunnerError, RunnerOptions, make_runner
artifact = Path(sys.argv[1])
def load(**options):
    return make_runner("dlr", RunnerOptions(artifact, **options))
"""
CPUS = str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0)
COPIER = neo.copier((1, 3, 2, 4))


def told(python: Path, artifact: Path, code: str, **environment: str) -> Any:
    """Run code after LOAD; return the JSON that it prints, which is all that it may print."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TVM_", "OMP_"))}
    done = subprocess.run(
        [python, "-c", LOAD + code, artifact], env={**clean, **environment}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory, library: bytes) -> Path:
    files = {**COPIER.files(library), "libdlr.so": library}
    return neo.save(tmp_path_factory.mktemp("model") / "artifact", files)


def test_nothing_is_reported_printed_or_written(python: Path, artifact: Path) -> None:
    """Importing dlr prints a notice, writes a file, and every load sends a request that may hang for good."""
    code = """
import socket
def refuse(*_): raise SystemExit("a connection was tried")
socket.socket.connect = socket.getaddrinfo = refuse
load()
import dlr
print(json.dumps([sorted(m for m in sys.modules if m.startswith("dlr.counter")), "requests" in sys.modules,
  (Path(dlr.__file__).parent / "counter" / "ccm_config.json").exists(), len(logging.getLogger().handlers)]))
"""
    assert told(python, artifact, code) == [["dlr.counter"], False, False, 0]


@pytest.mark.parametrize(
    ("given", "code", "expected"),
    [
        pytest.param({}, "load(threads=3)", {"THREADS": "3", "BIND": "0", "SPIN": "0"}, id="the manifest's count"),
        pytest.param({}, "load()", {"THREADS": CPUS, "BIND": "0", "SPIN": "0"}, id="all"),
        pytest.param(
            {"TVM_NUM_THREADS": "7", "TVM_BIND_THREADS": "1", "TVM_THREAD_POOL_SPIN_COUNT": "9"},
            "load()",
            {"THREADS": "7", "BIND": "1", "SPIN": "9"},
            id="the operator's",
        ),
        pytest.param(
            {"TVM_NUM_THREADS": "7"},
            "load(threads=3)",
            {"THREADS": "3", "BIND": "0", "SPIN": "0"},
            id="the manifest's count wins",
        ),
    ],
)
def test_settings_of_the_thread_pool(
    python: Path, artifact: Path, given: dict[str, str], code: str, expected: dict[str, str]
) -> None:
    keys = {"THREADS": "TVM_NUM_THREADS", "BIND": "TVM_BIND_THREADS", "SPIN": "TVM_THREAD_POOL_SPIN_COUNT"}
    found = told(python, artifact, f"{code}\nprint(json.dumps(dict(os.environ)))", **given)
    assert {name: found.get(key) for name, key in keys.items()} == expected


def test_a_parallel_kernel_does_not_tie_its_thread_to_half_the_cpus(
    python: Path, tmp_path: Path, kernels: bytes, library: bytes
) -> None:
    node = neo.Node("count", (1,), ["input"], "count_threads")
    model = neo.Model({"input": ((1, 3, 1, 1), "float32")}, [node], ["count"])
    artifact = neo.save(tmp_path / "artifact", {**model.files(kernels), "libdlr.so": library})
    code = """
before = sorted(os.sched_getaffinity(0))
runner = load(threads=2)
image = np.zeros((1, 3, 1, 1), np.float32)
count = int(runner(image)[0][0])
print(json.dumps([count, sorted(os.sched_getaffinity(0)) == before]))
"""
    assert told(python, artifact, code) == [2, True]


WHICH = """
try:
    print(json.dumps(load().details["library"]))
except RunnerError as error:
    print(json.dumps(str(error)))
"""


@pytest.mark.parametrize(
    ("bundled", "expected"),
    [
        pytest.param(False, "libdlr 1.6.0 of the server", id="the server's own"),
        pytest.param(True, "libdlr 1.6.0 of the package", id="the package's first"),
    ],
)
def test_b102_which_library(tmp_path: Path, library: bytes, bundled: bool, expected: str) -> None:
    python = wheels.environment(tmp_path / "venv", with_library=True)
    extra = {"libdlr.so": library} if bundled else {}
    assert told(python, neo.save(tmp_path / "artifact", {**COPIER.files(library), **extra}), WHICH) == expected


def test_b102_no_dlr_package(tmp_path: Path, artifact: Path) -> None:
    python = pythons.without(tmp_path / "venv", "dlr")
    line = told(python, artifact, WHICH)
    assert line.startswith("runtime dlr needs the dlr package")
    assert line.endswith("pip install --no-deps dlr==1.10.0")
