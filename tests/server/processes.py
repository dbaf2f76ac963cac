"""What a server leaves behind: processes and shared memory, read from Linux."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path


def shared_memory_of_this_process() -> list[str]:
    """The module's shared server has some of its own."""
    return sorted(entry.name for entry in Path("/dev/shm").glob(f"convertor-{os.getpid()}-*"))


def children(parent: int) -> list[int]:
    return [pid for pid, fields in _processes() if int(fields[1]) == parent]


def alive_in_session(session: int) -> list[int]:
    """Processes of a session that still run; they have a moment to end (a killed one may wait for its parent)."""
    for _ in range(50):
        alive = [pid for pid, fields in _processes() if int(fields[3]) == session and fields[0] != "Z"]
        if not alive:
            break
        time.sleep(0.02)
    return alive


def _processes() -> Iterator[tuple[int, list[str]]]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        yield int(stat.parent.name), fields
