"""How many threads an engine may use here.

Payload: runs inside the server's python (3.9 or newer); standard library only.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

GROUPS = Path("/proc/self/cgroup")
MOUNT = Path("/sys/fs/cgroup")


def thread_count(wanted: int = 0) -> int:
    """Return `wanted`, or where that is 0 the CPUs that this process may use, at least 1.

    Those are its CPU affinity, and no more than its cgroups' CPU quota rounded up: a container that may use one CPU's
    time on a machine of 64 would be throttled with 64 threads.
    """
    if wanted:
        return wanted
    affinity = getattr(os, "sched_getaffinity", None)
    cpus = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, math.ceil(min([float(cpus), *_quotas()])))


def _quotas() -> Iterator[float]:
    """Yield the CPU quota, in CPUs, of every cgroup that this process is in and that has one."""
    try:
        groups = GROUPS.read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return
    for line in groups:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        # Version 2 has one tree and no list of controllers; version 1 a tree for the controllers that share it.
        root = MOUNT / controllers if controllers else MOUNT
        inside = root / path.lstrip("/")
        # In a container the path may be the host's, of which only the root can be seen.
        for folder in (inside, *inside.parents):
            yield from _quota(folder)
            if folder == root:
                break


def _quota(folder: Path) -> Iterator[float]:
    try:
        modern = folder / "cpu.max"
        if modern.exists():
            quota, period = modern.read_text("utf-8").split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text("utf-8")
            period = (folder / "cpu.cfs_period_us").read_text("utf-8")
        if quota != "max" and int(quota) > 0:
            yield int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return
