"""Time a call in this process, or a command as a whole process."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True)
class Row:
    """One line of the table: what was measured, the figure, the target, what bounds it."""

    name: str
    figure: str
    target: str
    bound: str


@dataclass(frozen=True)
class Usage:
    """What one process took: seconds by the clock, seconds of CPU, MB of memory at its peak."""

    wall: float
    cpu: float
    peak: float


def milliseconds(call: Callable[[], object], runs: int = 200, warm_up: int = 20) -> tuple[float, float]:
    """Return (median, minimum) of a call, milliseconds."""
    for _ in range(warm_up):
        call()
    taken: list[float] = []
    for _ in range(runs):
        started = time.perf_counter()
        call()
        taken.append((time.perf_counter() - started) * 1e3)
    return statistics.median(taken), min(taken)


# A process's peak counts the memory of the one that started it, up to the exec: a small one in between keeps ours out.
_MEASURED = """
import json, resource, subprocess, sys, time
started = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
wall, used = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
if done.returncode:
    sys.exit(done.stderr.decode())
print(json.dumps([wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""


def process(command: Sequence[str]) -> Usage:
    """Run a command to its end and return what it took; its output is thrown away.

    Raises:
        subprocess.CalledProcessError: It failed.
    """
    wrapped = [sys.executable, "-S", "-c", _MEASURED, *command]
    return Usage(*json.loads(subprocess.run(wrapped, stdout=subprocess.PIPE, check=True).stdout))  # noqa: S603
