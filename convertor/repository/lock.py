"""One publisher at a time for each repository, across processes and threads."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path, waiting: Callable[[], None]) -> Generator[None]:
    """Hold the lock file `path`, waiting for another holder; the kernel frees the lock of a process that dies.

    Args:
        path: The lock file; made when missing, removed at the end.
        waiting: Called once when somebody else holds the lock.
    """
    descriptor = _acquire(path, waiting)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # still held: whoever waits on this inode sees below that it is gone
        os.close(descriptor)


def _acquire(path: Path, waiting: Callable[[], None]) -> int:
    told = False
    while True:
        # For writing: NFS needs that for an exclusive lock, which is why this is a file and not the directory itself.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not told:
                    waiting()
                told = True
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_at(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    """Tell whether the file at `path` is the one that is open: its holder may have removed it while we waited."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
