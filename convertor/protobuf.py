"""Walk protobuf's wire format in a stream, without a schema and without holding a message.

Encoding: https://protobuf.dev/programming-guides/encoding/. Length-delimited fields are announced before
they are read, so that gigabytes of tensor data are passed over; where the stream can seek, for free.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO, Final

VARINT: Final = 0
LEN: Final = 2
_I64, _I32 = 1, 5
_WINDOW = 1 << 16
_SKIP = 1 << 20
_MOST_FIELDS = 5_000_000  # a graph of 100,000 nodes has 3 million; bounds the time spent on junk (4 s)
_MOST_TEXT = 32 << 20  # of names, 350,000 usual ones; each counts _TEXT_COST more, which is what its object takes
_TEXT_COST = 64


class WireError(Exception):
    """The bytes are no protobuf message, or its bounds are exceeded; the text says where and why."""


class WireReader:
    """Reads fields one after the other.

    Args:
        stream: Positioned at the message's first byte.
        size: The message's length in bytes.

    Attributes:
        size: As given.
    """

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self.size = size
        self._stream = stream
        self._can_seek = stream.seekable()
        self._window, self._index, self._base = b"", 0, 0
        self._fields = self._text = 0

    def fields(self, stop: int) -> Iterator[tuple[int, int]]:
        """Yield (key, value) of each field up to offset `stop`; the key is `field_key(number, wire type)`.

        The value is the number itself for VARINT and the offset behind the content for LEN, of which the caller may
        read any part (`text`, `fields`) before going on; other wire types are passed over.

        Raises:
            WireError: The bytes make no sense.
        """
        while (position := self._base + self._index) < stop:
            self._fields += 1
            if self._fields > _MOST_FIELDS:
                raise WireError(f"more than {_MOST_FIELDS} fields")
            key = self._varint()
            wire = key & 7
            # Readers in C++ cut a key to 32 bits and would take it for another field.
            if not 8 <= key < 1 << 32 or wire not in (VARINT, LEN, _I64, _I32):
                raise WireError(f"no field begins at byte {position}")
            if wire == VARINT:
                yield key, self._varint()
                continue
            length = self._varint() if wire == LEN else 8 if wire == _I64 else 4
            end = self._base + self._index + length
            if end > stop:
                raise WireError(
                    f"it is cut short or damaged: the field at byte {position} ends {end - stop} bytes late"
                )
            if wire == LEN:
                yield key, end
            self._skip_to(end)
        if self._base + self._index > stop:
            raise WireError(f"a number runs over the end of its message at byte {stop}")

    def text(self, end: int, limit: int) -> str | None:
        """Return the content up to offset `end` as text (UTF-8, faults replaced); None if over `limit` bytes."""
        length = end - self._base - self._index
        if length > limit:
            return None
        self._text += length + _TEXT_COST
        if self._text > _MOST_TEXT:
            raise WireError(f"more than {_MOST_TEXT} bytes of names")
        return self._bytes(length).decode("utf-8", "replace")

    def _bytes(self, length: int) -> bytes:
        data = self._window[self._index : self._index + length]
        self._index += len(data)
        while len(data) < length:
            self._fill()
            more = self._window[: length - len(data)]
            self._index = len(more)
            data += more
        return data

    def _varint(self) -> int:
        value = shift = 0
        while shift < 70:
            if self._index >= len(self._window):
                self._fill()
            byte = self._window[self._index]
            self._index += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF
            shift += 7
        raise WireError(f"no number ends at byte {self._base + self._index}")

    def _fill(self) -> None:
        self._base += len(self._window)
        self._index = 0
        self._window = self._stream.read(min(_WINDOW, self.size - self._base))
        if not self._window:
            raise WireError(f"it is cut short: it ends at byte {self._base}")

    def _skip_to(self, end: int) -> None:
        if end <= self._base + len(self._window):
            self._index = end - self._base
            return
        left = end - self._base - len(self._window)
        if self._can_seek:
            self._stream.seek(left, os.SEEK_CUR)
        else:
            while left:
                passed = len(self._stream.read(min(left, _SKIP)))
                if not passed:
                    raise WireError(f"it is cut short: it ends at byte {end - left}")
                left -= passed
        self._window, self._index, self._base = b"", 0, end


def field_key(number: int, wire: int = LEN) -> int:
    """Return the key that precedes a field of this number and wire type."""
    return number << 3 | wire
