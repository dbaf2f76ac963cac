"""A stand-in for TensorRT, because without a GPU it neither loads nor runs a plan.

It has exactly the functions that the runner uses. Its engines compute with NumPy, from what really lies in the memory
whose address they were given and into such memory, so that a wrong address, type, order or shape shows. What the real
library does is tested in test_real_library.py.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from runtimes.tensorrt.tests.fake_cuda import read_device, write_device

Shape = tuple[int, ...]
Outputs = dict[str, np.ndarray]
VERSION = "10.15.1.29"


def plan_bytes(version: str = VERSION, magic: bytes = b"ftrt", body: bytes = b"the engine", layout: int = 2) -> bytes:
    """Return a file with the header of a real plan (read from plans of 8.6, 10.0, 10.15 and of RTX 1.4, 1.7)."""
    numbers = [int(part) for part in version.split(".")]
    return struct.pack("<4s4xQQ4B", magic, layout, 28 + len(body), *numbers) + body


class Mode(Enum):
    INPUT = 1
    OUTPUT = 2


class Severity(Enum):
    INTERNAL_ERROR = 0
    ERROR = 1
    WARNING = 2


STORAGE = {"FLOAT": "f4", "HALF": "f2", "BF16": "u2", "INT8": "i1", "INT32": "i4", "INT64": "i8", "UINT8": "u1"}


@dataclass
class FakeEngine:
    """tensorrt.ICudaEngine: one image and outputs that NumPy computes from it.

    Attributes:
        cuda: Where its memory is.
        names: In the order in which the engine lists them; the first is no more the image than any other.
        image: Which of them is the input.
        shape: The input's, -1 where it is open.
        profile: Least and largest shape of the input.
        compute: The input as it lies in memory -> each output likewise.
        types: TensorRT's type of each tensor; FLOAT where it is left out.
        data_dependent: Output -> the most bytes that it can have; its shape is known only when it was computed.
    """

    cuda: Any
    names: Sequence[str]
    shape: Shape
    compute: Callable[[np.ndarray], Outputs]
    image: str = "images"
    profile: tuple[Shape, Shape] | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    data_dependent: Mapping[str, int] = field(default_factory=dict)
    second_input: str = ""
    location: str = "DEVICE"
    format: str = "LINEAR"
    contexts: int = 0
    failure: str = ""
    log: Any = None

    @property
    def num_io_tensors(self) -> int:
        return len(self.names)

    def get_tensor_name(self, index: int) -> str:
        return self.names[index]

    def get_tensor_mode(self, name: str) -> Mode:
        return Mode.INPUT if name in (self.image, self.second_input) else Mode.OUTPUT

    def get_tensor_location(self, name: str) -> Any:
        return SimpleNamespace(name=self.location)

    def get_tensor_format(self, name: str) -> Any:
        return SimpleNamespace(name=self.format)

    def get_tensor_dtype(self, name: str) -> Any:
        return SimpleNamespace(name=self.types.get(name, "FLOAT"))

    def get_tensor_shape(self, name: str) -> Shape:
        return self.shape if name == self.image else self.output_shape(name, self.shape)

    def get_tensor_profile_shape(self, name: str, profile: int) -> list[Shape]:
        assert (name, profile) == (self.image, 0)
        assert self.profile
        return [self.profile[0], self.profile[0], self.profile[1]]

    def output_shape(self, name: str, shape: Shape) -> Shape:
        """Return an output's shape for an input's, -1 where it is open."""
        known = self.compute(np.zeros([max(axis, 1) for axis in shape], self.storage(self.image)))[name].shape
        if name in self.data_dependent:
            return (-1, *known[1:])
        return (shape[0], *known[1:]) if known else known

    def storage(self, name: str) -> np.dtype:
        return np.dtype(STORAGE[self.types.get(name, "FLOAT")])

    def create_execution_context(self) -> FakeContext | None:
        self.contexts += 1
        return None if self.failure == "context" else FakeContext(self)


class FakeContext:
    """tensorrt.IExecutionContext."""

    def __init__(self, engine: FakeEngine) -> None:
        self.engine = engine
        self.shape: Shape | None = None
        self.addresses: dict[str, int] = {}
        self.allocators: dict[str, Any] = {}

    def set_input_shape(self, name: str, shape: Shape) -> bool:
        assert name == self.engine.image
        least, largest = self.engine.profile or (self.engine.shape, self.engine.shape)
        fits = len(shape) == len(least) and all(a <= x <= b for a, x, b in zip(least, shape, largest))
        self.shape = shape if fits else None
        return fits

    def get_tensor_shape(self, name: str) -> Shape:
        assert self.shape, "the input's shape comes first"
        return self.engine.output_shape(name, self.shape)

    def set_tensor_address(self, name: str, address: int) -> bool:
        assert name in self.engine.names
        self.addresses[name] = address
        return True

    def set_output_allocator(self, name: str, allocator: Any) -> bool:
        self.allocators[name] = allocator
        return True

    def execute_async_v3(self, stream: int) -> bool:
        if self.engine.failure == "run":
            self.engine.log.log(Severity.WARNING, "only a warning")
            self.engine.log.log(Severity.ERROR, f"the kernel\nfailed on {self.shape}")
            self.engine.log.log(Severity.INTERNAL_ERROR, "and so did the engine")
            return False
        if self.engine.data_dependent:  # the real one waits for these shapes too
            self.engine.cuda.cudaStreamSynchronize(stream)
            return self._run()
        self.engine.cuda.enqueue(stream, self._run)
        return True

    def _run(self) -> bool:
        engine, shape = self.engine, self.shape
        assert shape
        image = np.empty(shape, engine.storage(engine.image))
        read_device(engine.cuda, self.addresses[engine.image], image)
        for name, value in engine.compute(image).items():
            assert value.dtype == engine.storage(name)
            address = self.addresses.get(name)
            if name in engine.data_dependent:
                address = self.allocators[name].reallocate_output_async(name, 0, engine.data_dependent[name], 256, 0)
                if not address:
                    return False
                if engine.failure != "silence":
                    self.allocators[name].notify_shape(name, value.shape)
            write_device(engine.cuda, address, value)
        return True


class FakeTrt(ModuleType):
    """The module `tensorrt` (or `tensorrt_rtx`), whose runtime gives the one engine that it was made with."""

    TensorIOMode = Mode

    class ILogger:
        INTERNAL_ERROR, ERROR, WARNING = Severity.INTERNAL_ERROR, Severity.ERROR, Severity.WARNING

    class IOutputAllocator:
        pass

    def __init__(self, engine: FakeEngine | None, version: str = VERSION, errors: Sequence[str] = ()) -> None:
        super().__init__("tensorrt")
        self.__version__ = version
        self._engine = engine
        self._errors = errors
        self.plugins = False
        self.content = b""

    def init_libnvinfer_plugins(self, log: Any, namespace: str) -> bool:
        assert namespace == ""
        self.plugins = True
        return True

    def Runtime(self, log: Any) -> Any:
        if self._engine is not None and self._engine.failure == "runtime":
            raise TypeError("pybind11::init(): factory function returned nullptr")
        return SimpleNamespace(
            deserialize_cuda_engine=lambda content: self._deserialize(log, content), engine_host_code_allowed=False
        )

    def _deserialize(self, log: Any, content: memoryview) -> FakeEngine | None:
        assert self.plugins, "plugins are registered before"
        self.content = bytes(content)
        for error in self._errors:
            log.log(Severity.ERROR, error)
        if self._engine is not None:
            self._engine.log = log
        return self._engine


def save_plan(folder: Path, content: bytes | None = None) -> Path:
    """Write model.plan and return its path."""
    path = folder / "model.plan"
    path.write_bytes(plan_bytes() if content is None else content)
    return path
