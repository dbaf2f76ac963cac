"""Memory of a server and its stubs, and its shared memory, read from Linux."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

KINDS = ("RssAnon", "RssFile", "RssShmem")
# Where convertor/serve names the shared memory of this process's servers.
SHARED = Path("/dev/shm")  # noqa: S108


@dataclass(frozen=True)
class Shared:
    """What lies in /dev/shm of a server: entries, and bytes as their sizes say."""

    entries: int
    size: int


def resident(server: int) -> dict[str, tuple[int, int, int]]:
    """Return the resident memory, KB (anonymous, of files, shared), of a server and each of its stubs.

    Keys are `server` and the stubs' instance names (`base_<m>_0_0`).
    """
    found: dict[str, tuple[int, int, int]] = {}
    for pid in _session(server):
        try:
            name = "server" if pid == server else _instance(pid)
            status = dict(
                line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
            )
            found[name] = tuple(int(status[kind].split()[0]) for kind in KINDS)  # type: ignore[assignment]
        except (OSError, KeyError):
            continue  # it has ended
    return found


def total(sample: Mapping[str, tuple[int, int, int]]) -> float:
    """Return the RSS of all processes, MB; memory that they share counts in each."""
    return sum(map(sum, sample.values())) / 1024


def shared() -> Shared:
    """Return the shared memory of the servers that this process has started."""
    entries = list(SHARED.glob(f"convertor-{os.getpid()}-*"))
    return Shared(len(entries), sum(entry.stat().st_size for entry in entries))


def _session(leader: int) -> list[int]:
    """Return the processes of a session: serve gives every server its own."""
    members: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[3]) == leader:
                members.append(int(stat.parent.name))
        except OSError:
            continue
    return members


def _instance(pid: int) -> str:
    arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    names = [argument for argument in arguments if argument.startswith(("base_", "marshal_"))]
    return names[0] if names else f"{arguments[0].rpartition('/')[2]} {pid}"
