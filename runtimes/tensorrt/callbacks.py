"""What TensorRT calls back while it works: a log, and memory for outputs whose size only the data decide.

Payload: runs inside the server's python (3.9 or newer). `trt` is the module tensorrt or tensorrt_rtx, which runner.py
imports; its base classes exist at run time only, so the subclasses are made in functions.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from types import ModuleType
from typing import Protocol, cast

from ..contract import RunnerError
from .cuda_memory import Buffer

_LONGEST = 300


class ErrorLog(Protocol):
    """A logger of TensorRT's.

    Attributes:
        reason: The first error since `clear`, in one line of at most 300 characters; those that follow it only say that
            something failed. "no reason given" when there was none.
    """

    reason: str

    def clear(self) -> None:
        """Forget it."""


class OutputAllocator(Protocol):
    """What TensorRT asks for an output's memory, and tells its shape.

    Attributes:
        shape: Of the output in the run that was enqueued last; set it to None before the next.
        error: What made an allocation fail.
    """

    shape: tuple[int, ...] | None
    error: RunnerError | None


@functools.cache
def error_log(trt: ModuleType) -> ErrorLog:
    """Return the one logger of this process for `trt`: TensorRT may send everything to the first that it was given."""
    severities = (trt.ILogger.INTERNAL_ERROR, trt.ILogger.ERROR)

    class Log(trt.ILogger):
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self._first = ""

        @property
        def reason(self) -> str:
            return self._first or "no reason given"

        def clear(self) -> None:
            self._first = ""

        def log(self, severity: object, message: str) -> None:
            if severity in severities and not self._first:
                self._first = " ".join(message.split())[:_LONGEST]

    return cast("ErrorLog", Log())


def output_allocator(trt: ModuleType, buffer: Buffer) -> OutputAllocator:
    """Return an allocator that puts one output into `buffer`."""

    class Allocator(trt.IOutputAllocator):
        def __init__(self) -> None:
            trt.IOutputAllocator.__init__(self)
            self.shape: tuple[int, ...] | None = None
            self.error: RunnerError | None = None

        # TensorRT calls the second; its base class has both.
        def reallocate_output(self, name: str, memory: int, size: int, alignment: int) -> int:
            return self.reallocate_output_async(name, memory, size, alignment, 0)

        def reallocate_output_async(self, name: str, memory: int, size: int, alignment: int, stream: int) -> int:
            del name, memory, alignment, stream  # cudaMalloc aligns to 256 bytes, more than any type needs
            try:
                buffer.reserve(max(size, 1))  # an empty output too needs an address
            except RunnerError as error:  # an exception would be printed by TensorRT and lost
                self.error = error
                return 0
            return buffer.device_address

        def notify_shape(self, name: str, shape: Iterable[int]) -> None:
            del name
            self.shape = tuple(shape)

    return cast("OutputAllocator", Allocator())
