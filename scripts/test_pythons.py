"""Run the payload's tests on the oldest, the usual and the newest Python that a server's stub may have.

Each gets a virtual environment below .cache/pythons with the libraries that go with it. Interpreters are those that
the environment's CONVERTOR_PYTHONS names (joined like PATH), `python3.9` and so on on PATH, and pyenv's. One that
is not here is named and skipped; none at all, or a failing test, is an error.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENVS = ROOT / ".cache" / "pythons"
TESTED = ("tests/payload", "postprocessors", "runtimes")
TOOLS = ("pytest>=8.0", "hypothesis>=6.100", "pillow>=10.1", "onnxruntime>=1.17")
# NumPy 1 with OpenCV 4 is what release 24.10's server takes; newer servers have NumPy 2 and OpenCV 5.
LIBRARIES = {
    "3.9": ("numpy<2", "opencv-python-headless<5"),
    "3.11": ("numpy<2", "opencv-python-headless<5"),
    "3.13": ("numpy>=2", "opencv-python-headless"),
}


def main() -> int:
    """Return the exit code: 0 when every Python that is here passes."""
    results: dict[str, bool] = {}
    for version, libraries in LIBRARIES.items():
        interpreter = _find(version)
        if interpreter is None:
            _say(f"Python {version}: not here, skipped (set CONVERTOR_PYTHONS to its path)")
            continue
        _say(f"Python {version}: {interpreter}")
        python = _environment(version, interpreter, [*libraries, *TOOLS])
        results[version] = _run(python, "-m", "pytest", *TESTED, check=False) == 0
    for version, passed in results.items():
        _say(f"Python {version}: {'passed' if passed else 'FAILED'}")
    return 0 if results and all(results.values()) else 1


def _find(version: str) -> str | None:
    named = [path for path in os.environ.get("CONVERTOR_PYTHONS", "").split(os.pathsep) if path]
    candidates = [*named, shutil.which(f"python{version}"), *_of_pyenv(version)]
    return next((path for path in candidates if path and _version_of(path) == version), None)


def _of_pyenv(version: str) -> list[str]:
    """Return pyenv's interpreters of a version: its command on PATH is a shim that may be switched off."""
    pyenv = shutil.which("pyenv")
    if pyenv is None:
        return []
    root = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
    return [str(path) for path in Path(root, "versions").glob(f"{version}.*/bin/python")]


def _version_of(interpreter: str) -> str:
    """Return "3.11" and so on; empty where it does not run (a shim of a version that is not switched on)."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        answer = subprocess.run([interpreter, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


def _environment(version: str, interpreter: str, requirements: list[str]) -> Path:
    """Return the python of the version's virtual environment, made anew when the requirements have changed."""
    folder = VENVS / version
    stamp, wanted = folder / "requirements", "\n".join([interpreter, *requirements])
    python = folder / "bin" / "python"
    if not stamp.is_file() or stamp.read_text("utf-8") != wanted:
        _run(interpreter, "-m", "venv", "--clear", folder, check=True)
        _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements, check=True)
        stamp.write_text(wanted, "utf-8")
    return python


def _run(*command: str | Path, check: bool) -> int:
    return subprocess.run(command, cwd=ROOT, check=check).returncode  # noqa: S603 - our own commands


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    raise SystemExit(main())
