"""What native code prints on stderr, taken while it runs: DLR's C++ part gives its reasons nowhere else.

Payload: runs inside the server's python (3.9 or newer); the standard library is enough.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Generator


@contextlib.contextmanager
def captured_stderr() -> Generator[Callable[[], str]]:
    """Send file descriptor 2 of the whole process to a file; yields a function that returns what it got so far.

    Nothing is captured where a process has no stderr. The C++ library buffers nothing there, so nothing is flushed.
    """
    try:
        original = os.dup(2)
    except OSError:
        yield lambda: ""
        return
    text = ""
    with tempfile.TemporaryFile() as file:

        def printed() -> str:
            return text

        os.dup2(file.fileno(), 2)
        try:
            yield printed
        finally:
            os.dup2(original, 2)
            os.close(original)
            file.seek(0)
            text = file.read().decode("utf-8", "replace")
