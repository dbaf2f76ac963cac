"""What runs beside a copy, each in a thread of its own: hashing, and the disk's work.

Reading, writing, SHA-256, CRC-32 and fsync all release the interpreter lock.
"""

from __future__ import annotations

import hashlib
import os
import threading
import zlib
from queue import Queue

_AHEAD = 4  # chunks that may wait for their hash; bounds memory
_FLUSH = 64 << 20


class Hasher(threading.Thread):
    """Computes SHA-256, and CRC-32 where one is expected; a context manager that ends when all is hashed.

    Args:
        crc: The CRC-32 to compare with; None: computes none.
    """

    def __init__(self, crc: int | None) -> None:
        super().__init__(daemon=True)
        self._sha256 = hashlib.sha256()
        self._queue: Queue[bytes | None] = Queue(_AHEAD)
        self._expected, self._crc = crc, 0

    def update(self, chunk: bytes) -> None:
        """Take the next chunk; waits while too many are pending."""
        self._queue.put(chunk)

    def hexdigest(self) -> str:
        """Return the SHA-256 of all chunks; only after the context has ended."""
        return self._sha256.hexdigest()

    def intact(self) -> bool:
        """Say whether the CRC-32 is the expected one; only after the context has ended."""
        return self._expected is None or self._expected == self._crc

    def run(self) -> None:
        """Hash until None comes."""
        while (chunk := self._queue.get()) is not None:
            self._sha256.update(chunk)
            if self._expected is not None:
                self._crc = zlib.crc32(chunk, self._crc)

    def __enter__(self) -> Hasher:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._queue.put(None)
        self.join()


class Flusher(threading.Thread):
    """Lets the disk write while the copy goes on: the fsync that follows a large file then has little left to do.

    Args:
        descriptor: The file that is being written.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(daemon=True)
        self._descriptor = descriptor
        self._dirty = 0
        self._wake = threading.Event()
        self._ended = False
        self._error: OSError | None = None

    def wrote(self, size: int) -> None:
        """Note that `size` more bytes were written."""
        self._dirty += size
        if self._dirty >= _FLUSH:
            self._dirty = 0
            if not self.is_alive():
                self.start()
            self._wake.set()

    def end(self) -> None:
        """Stop. Raises OSError if the disk refused something: the kernel reports that only once."""
        self._ended = True
        self._wake.set()
        if self.is_alive():
            self.join()
        if self._error:
            raise self._error

    def run(self) -> None:
        """Flush whenever woken, until ended."""
        while self._wake.wait() and not self._ended:
            self._wake.clear()
            try:
                os.fsync(self._descriptor)
            except OSError as error:
                self._error = error
                return
