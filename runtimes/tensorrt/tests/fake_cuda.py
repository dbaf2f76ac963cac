"""A stand-in for `cuda.bindings.runtime`, because the machines that run the tests have no GPU; and the real one.

It has exactly the functions that the runner uses, and is strict where a mistake would show on a GPU: host and device
are different memory, what is put into a stream happens when the stream is synchronised and not before, memory is dirty
when it is given out, and a thread without a device, a freed address, a size beyond it or the wrong kind of copy is an
error.
Where there is a GPU the same tests run with the real module (conftest.py).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from enum import IntEnum
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

DIRT = 0xA5
NO_DRIVER = 35
OUT_OF_MEMORY = 2


class MemcpyKind(IntEnum):
    cudaMemcpyHostToDevice = 1
    cudaMemcpyDeviceToHost = 2


class FakeCuda(ModuleType):
    """`cuda.bindings.runtime` with one GPU; every function returns (error, result)."""

    cudaStreamNonBlocking = 1
    cudaMemcpyKind = MemcpyKind

    def __init__(self, gpus: int = 1) -> None:
        super().__init__("cuda.bindings.runtime")
        self.gpus = gpus
        self.live: dict[str, dict[int, np.ndarray]] = {"host": {}, "device": {}}
        self.allocations = 0
        self.limit = 1 << 40
        self.streams: dict[int, list[Callable[[], None]]] = {}
        self._selected = threading.local()

    def cudaGetDeviceCount(self) -> tuple[int, int]:
        return (0, self.gpus) if self.gpus else (NO_DRIVER, 0)

    def cudaGetErrorString(self, error: int) -> tuple[int, bytes]:
        return 0, {NO_DRIVER: b"no driver", OUT_OF_MEMORY: b"out of memory"}.get(error, b"another error")

    def cudaSetDevice(self, number: int) -> tuple[int]:
        self._selected.number = number
        return (0,)

    def cudaGetDeviceProperties(self, number: int) -> tuple[int, Any]:
        return 0, SimpleNamespace(name=b"A fake GPU", major=9, minor=number)

    def cudaStreamCreateWithFlags(self, flags: int) -> tuple[int, int]:
        assert flags == self.cudaStreamNonBlocking
        self.check_thread()
        self.streams[77 + len(self.streams)] = []
        return 0, 76 + len(self.streams)

    def cudaStreamDestroy(self, stream: int) -> tuple[int]:
        del self.streams[stream]
        return (0,)

    def cudaStreamSynchronize(self, stream: int) -> tuple[int]:
        work, self.streams[stream] = self.streams[stream], []
        for step in work:
            step()
        return (0,)

    def cudaMallocHost(self, size: int) -> tuple[int, int]:
        return self._allocate("host", size)

    def cudaMalloc(self, size: int) -> tuple[int, int]:
        if size > self.limit:
            return OUT_OF_MEMORY, 0
        return self._allocate("device", size)

    def cudaFreeHost(self, address: int) -> tuple[int]:
        return self._free("host", address)

    def cudaFree(self, address: int) -> tuple[int]:
        return self._free("device", address)

    def cudaMemcpyAsync(self, target: int, source: int, size: int, kind: MemcpyKind, stream: int) -> tuple[int]:
        self.check_thread()
        places = ("device", "host") if kind == MemcpyKind.cudaMemcpyHostToDevice else ("host", "device")
        self.inside(places[0], target, size)
        self.inside(places[1], source, size)
        self.enqueue(stream, lambda: ctypes.memmove(target, source, size))
        return (0,)

    def enqueue(self, stream: int, step: Callable[[], object]) -> None:
        self.streams[stream].append(step)  # a KeyError for the default stream

    def inside(self, place: str, address: int, size: int) -> None:
        """Fail unless these bytes lie in one live allocation of "host" or "device"."""
        assert size > 0
        assert any(start <= address and address + size <= start + len(m) for start, m in self.live[place].items())

    def check_thread(self) -> None:
        assert getattr(self._selected, "number", None) is not None, "no cudaSetDevice in this thread"

    def _allocate(self, place: str, size: int) -> tuple[int, int]:
        self.check_thread()
        memory = np.full(size, DIRT, np.uint8)
        self.allocations += 1
        self.live[place][memory.ctypes.data] = memory
        return 0, memory.ctypes.data

    def _free(self, place: str, address: int) -> tuple[int]:
        self.live[place].pop(address)[:] = 0xDD
        return (0,)


class RealCuda(ModuleType):
    """`cuda.bindings.runtime` itself, with what FakeContext needs to play the engine on a real stream."""

    def __init__(self, cudart: Any) -> None:
        super().__init__("cuda.bindings.runtime")
        self._cudart = cudart

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cudart, name)

    def enqueue(self, stream: int, step: Callable[[], object]) -> None:
        assert not int(self.cudaStreamSynchronize(stream)[0])
        step()

    def inside(self, place: str, address: int, size: int) -> None:
        assert not int(self.cudaPointerGetAttributes(address)[0])


def read_device(cuda: Any, address: int, array: np.ndarray) -> None:
    """Fill an array from device memory, at once."""
    cuda.inside("device", address, array.nbytes)
    if isinstance(cuda, FakeCuda):
        ctypes.memmove(array.ctypes.data, address, array.nbytes)
    else:
        kind = cuda.cudaMemcpyKind.cudaMemcpyDeviceToHost
        assert not int(cuda.cudaMemcpy(array.ctypes.data, address, array.nbytes, kind)[0])


def write_device(cuda: Any, address: int, array: np.ndarray) -> None:
    """Put an array into device memory, at once."""
    if not array.nbytes:
        assert address
        return
    array = np.ascontiguousarray(array)
    cuda.inside("device", address, array.nbytes)
    if isinstance(cuda, FakeCuda):
        ctypes.memmove(address, array.ctypes.data, array.nbytes)
    else:
        kind = cuda.cudaMemcpyKind.cudaMemcpyHostToDevice
        assert not int(cuda.cudaMemcpy(address, array.ctypes.data, array.nbytes, kind)[0])
