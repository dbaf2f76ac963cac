"""Make the environment of `make test-engines`: every engine that the package index has, in one virtual environment.

    python scripts/engines_env.py FOLDER TORCH

TORCH is what pip shall install for torch, options included: on Linux the index's own torch is a CUDA build of
gigabytes, which the tests do not need, so name a CPU build where you have one. DLR's wrapper comes without its
requirements, which serve its reports. The native libdlr.so is not installed: the tests pack it into their models, as
real packages do, from .cache/dlr, and some see what happens where a server has none.
"""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ".[serve,client,test]"
DLR = "dlr==1.10.0"
# TensorRT for RTX is the only TensorRT on the package index. Its parser and builder run without a GPU, its engines
# need one. The two packages that hold them are enough: no CUDA toolkit, no meta-package.
TENSORRT = ("tensorrt-rtx-cu13-libs==1.7.1.116", "tensorrt-rtx-cu13-bindings==1.7.1.116")
CUDA = "cuda-bindings==13.5.0"


def main() -> int:
    """Install; pip's own output is shown only when it fails."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        sys.stderr.write("test-engines: the engines' packages and the embedded server are for Linux on x86-64\n")
        return 1
    folder, torch = Path(sys.argv[1]), shlex.split(sys.argv[2])
    python = folder / "bin" / "python"
    if not python.exists():
        _run(sys.executable, "-m", "venv", folder)
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    # One call for both: numpy < 2 of the extras must hold for torch too.
    _run(*pip, "--editable", EXTRAS, CUDA, *torch)
    _run(*pip, "--no-deps", DLR, *TENSORRT)
    # Downloaded now, by the first test otherwise.
    _run(python, "-c", "from runtimes.dlr.tests import wheels; wheels.wrapper(); wheels.library()")
    return 0


def _run(*command: str | Path) -> None:
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603 - our own commands


if __name__ == "__main__":
    raise SystemExit(main())
