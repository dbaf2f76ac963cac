"""Run something in a forked child, to be killed or to give up root there."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

NOBODY = 65534


def killed(work: Callable[[], object]) -> bool:
    """Run `work` in a child; tell whether SIGKILL ended it. Any other failure of the child fails the test."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return True
    assert status == 0
    return False


def die() -> None:
    """End this process at once, with no chance to clean up."""
    os.kill(os.getpid(), signal.SIGKILL)


def as_nobody(work: Callable[[], object]) -> str:
    """Run `work` without root's rights and return the text of what it raised, "" for nothing."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            work()
        except BaseException as error:
            os.write(writer, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text
