"""`python -m bench soak`: clients at once for a while on each engine: wrong answers, memory that grows, shared memory.

One engine is served at a time, so that what is found is its own. A table goes to stdout.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import checked_load, memory, networks
from bench.checked_load import Tally
from convertor.serve.process import Server, running_server

SIDE, IMAGE = 64, (120, 160)
STEP = 0.25
WINDOWS = 10
MODEL = "soaked"
Enough = Callable[[Tally], bool]


@dataclass(frozen=True)
class Sample:
    """The memory at one time: seconds and answers since the start, KB of every process (see `memory.resident`)."""

    seconds: float
    answers: int
    resident: dict[str, tuple[int, int, int]]


@dataclass(frozen=True)
class Soak:
    """What was seen of one engine, after its warm-up.

    Attributes:
        kind: A key of `networks.available()`.
        ran: What really ran, as the server's log says: engine, version, device, threads.
        wrong: What was wrong with answers, those of the warm-up included.
        samples: The memory over time.
        shared: The server's shared memory at the start and at the end.
    """

    kind: str
    ran: str
    wrong: list[str]
    samples: list[Sample]
    shared: tuple[memory.Shared, memory.Shared]

    def growth(self, *processes: str) -> float:
        """Return by how many MB the RSS of all processes grew in the second half, or of those named like `processes`.

        Of the run's ten windows the medians of the sixth and of the last are compared. These lie 0.4 of the run
        apart, the second half is 0.5 of it, so the difference is scaled by 1.25.
        """
        sums = [
            memory.total({name: sizes for name, sizes in sample.resident.items() if name.startswith(processes or "")})
            for sample in self.samples
        ]
        size = len(sums) // WINDOWS
        return 1.25 * (statistics.median(sums[-size:]) - statistics.median(sums[5 * size : 6 * size]))

    def growth_per_1000(self, *processes: str) -> float:
        """Return the same in KB per 1000 answers."""
        half = self.samples[-1].answers - self.samples[len(self.samples) // 2].answers
        return self.growth(*processes) * 1024 * 1000 / half


def after_seconds(seconds: float) -> Enough:
    """Return whether so many seconds have passed since this was called."""
    end = time.monotonic() + seconds
    return lambda _: time.monotonic() >= end


def after_answers(count: int) -> Enough:
    """Return whether so many answers have come."""
    return lambda tally: tally.answers >= count


def convert(kind: str, folder: Path) -> Path:
    """Return a repository, below `folder`, of the small network in the format `kind`."""
    package = networks.write_package(kind, folder / f"{MODEL}.zip", SIDE, IMAGE, threads=1)
    command = [sys.executable, "-m", "convertor", "convert", str(package), "-o", str(folder / "repository")]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603
    return folder / "repository"


def soak(kind: str, folder: Path, clients: int, warm: Callable[[], Enough], enough: Callable[[], Enough]) -> Soak:
    """Serve the small network in the format `kind` and let clients call it.

    Raises:
        RuntimeError: It is not served.
    """
    with running_server(convert(kind, folder)) as server:
        if server.failed:
            raise RuntimeError(f"{kind}: {server.failed}")
        known = checked_load.cases(server, MODEL, checked_load.images(IMAGE))
        warmed = _load(server, known, clients, warm())[0]
        before = memory.shared()
        tally, samples = _load(server, known, clients, enough())
        ran = server.log_path.read_text("utf-8", "replace").partition(f"{MODEL} version 1: ")[2].partition('"')[0]
        return Soak(kind, ran, warmed.wrong + tally.wrong, samples, (before, memory.shared()))


def _load(server: Server, known: Sequence[Any], clients: int, enough: Enough) -> tuple[Tally, list[Sample]]:
    samples: list[Sample] = []
    started = time.monotonic()
    with checked_load.checked_load(server, MODEL, known, clients) as tally:
        while not enough(tally) and len(tally.wrong) < checked_load.MOST_WRONG:
            time.sleep(STEP)
            resident = memory.resident(server.process.pid)
            samples.append(Sample(time.monotonic() - started, tally.answers, resident))
    return tally, samples


def main(arguments: Sequence[str]) -> int:
    """Soak the engines that are named or all; return 1 if any gave a wrong answer."""
    kinds = networks.available()
    parser = argparse.ArgumentParser(prog="python -m bench soak")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--warm-up", type=float, default=15.0, help="seconds before the measured ones")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--engine", choices=sorted(kinds), action="append", help="default: each")
    parser.add_argument(
        "--json", type=Path, help="append one line of JSON per engine, with a sample of the memory per second"
    )
    told = parser.parse_args(arguments)
    print(f"{told.clients} clients (gRPC and HTTP), {told.seconds:g} s after {told.warm_up:g} s of warming up\n")
    print("| engine | answers | wrong | RSS | grown in the second half, MB (server, base, marshal) | /dev/shm | load |")
    print("|---|---|---|---|---|---|---|")
    status = 0
    for kind in told.engine or kinds:
        with tempfile.TemporaryDirectory(prefix="bench-") as name:
            found = soak(
                kind,
                Path(name),
                told.clients,
                lambda: after_seconds(told.warm_up),
                lambda: after_seconds(told.seconds),
            )
        print(_row(found), flush=True)
        for line in found.wrong[:5]:
            print(f"{kind}: {line}", file=sys.stderr)
        if told.json:
            with told.json.open("a", encoding="utf-8") as file:
                file.write(_json_line(found, told.clients) + "\n")
        status = 1 if found.wrong else status
    return status


def _row(found: Soak) -> str:
    parts = ", ".join(f"{found.growth(process):+.2f}" for process in ("server", "base", "marshal"))
    start, end = found.shared
    shared = f"{start.entries} entries, {start.size / 2**20:.1f} MB, " + ("the same" if start == end else f"then {end}")
    return (
        f"| {found.kind} | {found.samples[-1].answers} | {len(found.wrong)} "
        f"| {memory.total(found.samples[-1].resident):.0f} MB | {found.growth():+.2f} ({parts}) | {shared} "
        f"| {os.getloadavg()[0]:.1f} |"
    )


def _json_line(found: Soak, clients: int) -> str:
    return json.dumps(
        {
            "engine": found.kind,
            "ran": found.ran,
            "python": platform.python_version(),
            "cores": len(os.sched_getaffinity(0)),
            "clients": clients,
            "answers": found.samples[-1].answers,
            "wrong": found.wrong,
            "grown_mb": round(found.growth(), 3),
            "grown_kb_per_1000": round(found.growth_per_1000(), 1),
            "shared": [[shared.entries, shared.size] for shared in found.shared],
            "load": os.getloadavg(),
            "sample": ["seconds", "answers", {"process": [f"{kind}, KB" for kind in memory.KINDS]}],
            "samples": [[round(one.seconds, 2), one.answers, one.resident] for one in found.samples[::4]],
        }
    )
