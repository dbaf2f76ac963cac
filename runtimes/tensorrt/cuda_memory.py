"""One CUDA device: its stream, and buffers that exist twice, pinned on the host and on the device.

Payload: runs inside the server's python (3.9 or newer); needs numpy. `cudart` is the module `cuda.bindings.runtime`,
which runner.py imports; its functions return (error, result) and raise nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from ..contract import Array, RunnerError


class Device:
    """A GPU and one stream on it.

    Raises:
        RunnerError: There is no GPU of this number that can be used.
    """

    def __init__(self, cudart: ModuleType, number: int, wanted: str) -> None:
        self._cudart = cudart
        self._number = number
        self._stream: Any = None
        try:
            (count,) = self._call("cudaGetDeviceCount")
        except RunnerError as error:
            raise RunnerError(
                f"device {wanted}: no usable GPU ({error}), and runtime tensorrt runs on nothing else; "
                "install NVIDIA's driver and give the server a GPU, or serve the ONNX model with runtime onnx"
            ) from None
        if number >= count:
            raise RunnerError(
                f"device {wanted}: no usable GPU {number}, CUDA sees {count}; give the server one, "
                "or serve the ONNX model with runtime onnx"
            )
        self.select()
        (properties,) = self._call("cudaGetDeviceProperties", number)
        name = properties.name
        self.title = (
            f"{name.decode() if isinstance(name, bytes) else name} "
            f"(compute capability {properties.major}.{properties.minor})"
        )
        # Not the default stream, on which TensorRT synchronises the whole device.
        (self._stream,) = self._call("cudaStreamCreateWithFlags", cudart.cudaStreamNonBlocking)

    @property
    def stream(self) -> int:
        """The stream's handle."""
        return int(self._stream)

    def select(self) -> None:
        """Make this the calling thread's device: CUDA keeps one per thread, and a server calls from any."""
        self._call("cudaSetDevice", self._number)

    def upload(self, buffer: Buffer, size: int) -> None:
        """Copy the first `size` bytes of a buffer to the device, after what is in the stream."""
        kind = self._cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
        self._call("cudaMemcpyAsync", buffer.device_address, buffer.host_address, size, kind, self._stream)

    def download(self, buffer: Buffer, size: int) -> None:
        """Copy the first `size` bytes of a buffer to the host, after what is in the stream."""
        kind = self._cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        self._call("cudaMemcpyAsync", buffer.host_address, buffer.device_address, size, kind, self._stream)

    def synchronize(self) -> None:
        """Wait for everything in the stream."""
        self._call("cudaStreamSynchronize", self._stream)

    def close(self) -> None:
        """Destroy the stream; a second call does nothing."""
        stream, self._stream = self._stream, None
        if stream is not None:
            self._call("cudaStreamDestroy", stream)

    def allocate(self, size: int) -> tuple[int, int]:
        """Return the addresses of `size` bytes, pinned on the host and on the device."""
        (host,) = self._call("cudaMallocHost", size)
        try:
            (device,) = self._call("cudaMalloc", size)
        except RunnerError:
            self._call("cudaFreeHost", host)
            raise
        return int(host), int(device)

    def free(self, host: int, device: int) -> None:
        """Give both back."""
        self._call("cudaFreeHost", host)
        self._call("cudaFree", device)

    def _call(self, name: str, *arguments: object) -> list[Any]:
        error, *results = getattr(self._cudart, name)(*arguments)
        if int(error):
            _, text = self._cudart.cudaGetErrorString(error)
            raise RunnerError(f"CUDA: {name}: {text.decode() if isinstance(text, bytes) else text}")
        return results


class Buffer:
    """Memory for one tensor, kept between calls and replaced only when more is needed."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._capacity = 0
        self.host_address = 0
        self.device_address = 0

    def reserve(self, size: int) -> None:
        """Make room for `size` bytes; what was in a smaller buffer is lost."""
        if size <= self._capacity:
            return
        self.close()
        self.host_address, self.device_address = self._device.allocate(size)
        self._capacity = size

    def host_array(self, dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
        """Return the host's side as an array: a view, valid until `reserve` or `close`."""
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if not size:
            return np.empty(tuple(shape), dtype)
        memory = memoryview((ctypes.c_ubyte * size).from_address(self.host_address))
        return np.frombuffer(memory, dtype).reshape(tuple(shape))

    def close(self) -> None:
        """Free the memory; the buffer can be used again."""
        if self._capacity:
            self._capacity = 0
            self._device.free(self.host_address, self.device_address)
