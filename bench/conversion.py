"""`convert` as a whole process: the demo's package, and a package with a stored member of 1 GB."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import demo.model
import demo.run
from bench.timing import MIB, Row, Usage, process

RUNS = 5
LARGE = 1024 * MIB


def small() -> list[Row]:
    """Time `convert` of the 12.5 MB package into an empty repository."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        package = folder / "doclayout.zip"
        demo.run.pack(demo.model.fetch()[0], package)
        used: list[Usage] = []
        for run in range(RUNS + 1):
            used.append(process(_convert(package, folder / f"repository-{run}")))
    used = used[1:]  # the first run fills the file caches
    wall = statistics.median(one.wall for one in used)
    cpu = statistics.median(one.cpu for one in used)
    peak = max(one.peak for one in used)
    bound = "starting Python and importing Jinja2 and protobuf; then flushing 12.5 MB to disk"
    return [Row("convert 12.5 MB", f"{wall:.2f} s ({cpu:.2f} s CPU), {peak:.0f} MB", "0.4 s, 60 MB", bound)]


def large() -> list[Row]:
    """Time a 1 GB stored member against `python -m zipfile -e` and `sync`, in turn, in one run."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        package = folder / "large.zip"
        _write_large(package)
        ratios: list[float] = []
        peaks: list[float] = []
        for run in range(3):
            bare = _timed(lambda run=run: _unzip(package, folder / f"bare-{run}"))
            os.sync()
            ours = process(_convert(package, folder / f"repository-{run}"))
            ratios.append(ours.wall / bare)
            peaks.append(ours.peak)
            shutil.rmtree(folder / f"bare-{run}")
            shutil.rmtree(folder / f"repository-{run}")
            os.sync()
    figure = f"{statistics.median(ratios):.2f} x ({', '.join(f'{ratio:.2f}' for ratio in ratios)}), {max(peaks):.0f} MB"
    return [
        Row("convert 1 GB stored / zipfile -e + sync", figure, "1.3 x, flat", "the disk; SHA-256 in its own thread")
    ]


def _convert(package: Path, repository: Path) -> list[str]:
    return [sys.executable, "-m", "convertor", "convert", str(package), "-o", str(repository)]


def _write_large(package: Path) -> None:
    """Write a package with the demo's graph and 1 GB beside it, stored, of bytes that do not compress."""
    manifest = json.loads((Path(demo.run.__file__).parent / "manifest.json").read_text("utf-8"))
    block = os.urandom(8 * MIB)
    with zipfile.ZipFile(package, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.write(demo.model.fetch()[0], manifest["runtime_artifact"])
        with archive.open("weights.bin", "w", force_zip64=True) as member:
            for _ in range(LARGE // len(block)):
                member.write(block)


def _unzip(package: Path, target: Path) -> None:
    subprocess.run([sys.executable, "-m", "zipfile", "-e", str(package), str(target)], check=True)  # noqa: S603
    os.sync()


def _timed(work: Callable[[], object]) -> float:
    import time

    started = time.perf_counter()
    work()
    return time.perf_counter() - started
