"""What a command says: data on stdout; lines and progress for people on stderr, where nothing can stop the work."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from convertor.errors import RefusedError, one_line

if TYPE_CHECKING:
    from rich.progress import Progress

# Work that is over before this is not worth a progress bar.
QUIET_SECONDS = 1.0


def tell(*lines: str) -> None:
    """Print lines for people; a reader that has gone away is no reason to stop half-way."""
    try:
        for line in lines:
            print(one_line(line), file=sys.stderr, flush=True)  # noqa: T201
    except BrokenPipeError:
        discard(sys.stderr)


def say(*lines: str) -> None:
    """Print data; what the terminal's encoding lacks is escaped.

    Raises:
        BrokenPipeError: The reader has gone.
        RefusedError: stdout cannot be written, a full disk for instance.
    """
    encoding = sys.stdout.encoding or "utf-8"
    try:
        for line in lines:
            print(line.encode(encoding, "backslashreplace").decode(encoding))  # noqa: T201
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard(sys.stdout)
        raise RefusedError(f"stdout: cannot be written ({error.strerror}); free some space") from error


def discard(stream: TextIO) -> None:
    """Send what a stream still holds, and all that follows, to nowhere: its reader has gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


@contextmanager
def progress(label: str, total: int) -> Generator[Callable[[int], None] | None]:
    """Yield what takes the bytes done since its last call and draws a bar; None when nobody watches.

    Args:
        label: What is going on.
        total: Bytes in all.
    """
    if not sys.stderr.isatty():
        yield None
        return
    bar = _Bar(label, total)
    try:
        yield bar.advance
    finally:
        bar.stop()


class _Bar:
    """A bar that appears, and is imported, only when the work takes longer than a moment."""

    def __init__(self, label: str, total: int) -> None:
        self._label = label
        self._total = total
        self._done = 0
        self._shown_from = time.monotonic() + QUIET_SECONDS
        self._bar: Progress | None = None

    def advance(self, count: int) -> None:
        self._done += count
        if self._bar is None and time.monotonic() > self._shown_from:
            self._bar = self._start()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._done)

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _start(self) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        bar = Progress(*columns, console=Console(stderr=True), transient=True)
        bar.add_task(self._label, total=self._total)
        bar.start()
        return bar
