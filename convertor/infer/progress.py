"""A bar on a terminal's stderr from the second second on; it steps aside while something else is printed."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Generator
from typing import TYPE_CHECKING

from convertor.console import QUIET_SECONDS

if TYPE_CHECKING:
    from rich.progress import Progress


class ImageProgress(contextlib.AbstractContextManager["ImageProgress"]):
    """Counts images; a timer shows the bar, so that it also comes while the first image takes long.

    Args:
        total: Images in all.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._lock = threading.Lock()
        self._bar: Progress | None = None
        self._timer: threading.Timer | None = None
        if sys.stderr.isatty():
            self._timer = threading.Timer(QUIET_SECONDS, self._show)
            self._timer.daemon = True
            self._timer.start()

    def advance(self) -> None:
        """Count one image."""
        with self._lock:
            self._done += 1
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], completed=self._done)

    @contextlib.contextmanager
    def aside(self) -> Generator[None]:
        """Take the bar away while something is printed on the same terminal."""
        with self._lock:
            if self._bar is None:
                yield
                return
            self._bar.stop()
            try:
                yield
            finally:
                self._bar.start()

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._timer = None
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        with self._lock:
            if self._timer is None:
                return
            # stdout is data: it must never be led through the bar's console, which is stderr.
            self._bar = Progress(
                TextColumn("images"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._bar.add_task("images", total=self._total, completed=self._done)
            self._bar.start()
