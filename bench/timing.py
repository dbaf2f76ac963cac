"""Time a call in this process, or a command as a whole process."""

from __future__ import annotations

import os
import statistics
import subprocess
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


def process(command: Sequence[str]) -> Usage:
    """Run a command to its end and return what it took; its output is thrown away.

    Raises:
        RuntimeError: It failed.
    """
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as child:  # noqa: S603
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0 and child.stderr is not None:
            raise RuntimeError(f"{command[0]} failed: {child.stderr.read().decode()}")
    return Usage(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
