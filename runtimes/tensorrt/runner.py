"""TensorRT and TensorRT-RTX behind the runner contract.

Payload: runs inside the server's python (3.9 or newer); needs numpy, and when a model is loaded cuda-bindings and the
library that built the plan: tensorrt or tensorrt_rtx, which have one interface.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from ..contract import Array, RunnerError, RunnerOptions, TensorSpec
from ..slices import run_in_slices
from .callbacks import ErrorLog, OutputAllocator, error_log, output_allocator
from .cuda_memory import Buffer, Device
from .engine_tensors import EngineTensor, limits_of, tensors_of
from .plan_file import TENSORRT, TENSORRT_RTX, Plan, open_plan

# Product -> its modules, the first that is there, and its package. The second is what RTX's bindings are called without
# the meta-package.
MODULES = {TENSORRT: ("tensorrt",), TENSORRT_RTX: ("tensorrt_rtx", "tensorrt_rtx_bindings")}
PACKAGES = {TENSORRT: "tensorrt", TENSORRT_RTX: "tensorrt-rtx"}


class TensorRtRunner:
    """One engine, one execution context, one stream; `Runner` in ../contract.py says how it is called.

    One run at a time: calls from several threads wait for each other. Buffers are kept and grow when they have to.

    Raises:
        RunnerError: There is no usable GPU, the library is not installed or refuses the plan.
    """

    def __init__(self, options: RunnerOptions) -> None:
        if options.device == "cpu":
            raise RunnerError(
                "device cpu: runtime tensorrt needs a GPU; set device to auto or gpu, "
                "or serve the ONNX model with runtime onnx"
            )
        self._artifact = options.artifact.name
        plan = open_plan(options.artifact)
        self._trt: Any = _import_engine(plan, self._artifact)
        self._log = error_log(self._trt)
        self._lock = threading.Lock()
        self._engine: Any = None
        self._context: Any = None
        self._buffers: dict[str, Buffer] = {}
        self._device = Device(_import_cuda(), options.device_id, options.device)
        try:
            self._load(plan)
        except BaseException:
            self.close()
            raise
        self.details: Mapping[str, str] = {
            "engine": f"{plan.product} {self._trt.__version__}",
            "device": f"gpu {options.device_id}",
            "gpu": self._device.title,
            "shapes": str(self._limits),
        }

    def _load(self, plan: Plan) -> None:
        self._engine = deserialize(self._trt, self._log, plan, self._artifact, self._device.title)
        self._image, self._outputs = tensors_of(self._trt, self._engine, self._artifact)
        self._limits = limits_of(self._engine, self._image)
        self.inputs: Sequence[TensorSpec] = [self._image.spec]
        self.outputs: Sequence[TensorSpec] = [output.spec for output in self._outputs]
        self._log.clear()
        self._context = self._engine.create_execution_context()
        if self._context is None:
            raise RunnerError(
                f"{self._artifact}: {plan.product} {self._trt.__version__} cannot run it on {self._device.title}: "
                f"{self._log.reason}"
            )
        tensors = [self._image, *self._outputs]
        self._buffers = {tensor.name: Buffer(self._device) for tensor in tensors}
        self._allocators: dict[str, OutputAllocator] = {}

    def __call__(self, batch: Array) -> list[Array]:
        """Run any number of images, cast to the engine's type; floating outputs come back as float32.

        Raises:
            RunnerError: The engine does not take this batch, fails on it, or was closed.
        """
        with self._lock:
            if self._context is None:
                raise RunnerError(f"{self._artifact}: the runner is closed")
            self._device.select()
            names = [output.name for output in self._outputs]
            return run_in_slices(self._run, batch, self._limits.slice_size(len(batch)), names)

    def close(self) -> None:
        """Release the context, the memory and the engine; a later call is an error."""
        with self._lock:
            self._context = None
            self._engine = None
            self._device.select()
            for buffer in self._buffers.values():
                buffer.close()
            self._device.close()

    def _run(self, batch: Array) -> list[Array]:
        """Run what the engine takes at once."""
        self._log.clear()
        if not self._context.set_input_shape(self._image.name, tuple(batch.shape)):
            raise RunnerError(
                f"{self._artifact}: input {self._image.name}: the plan takes {self._limits}, got {list(batch.shape)}"
            )
        size = self._feed(batch)
        shapes = [self._bind_output(output) for output in self._outputs]
        self._device.upload(self._buffers[self._image.name], size)
        try:
            if not self._context.execute_async_v3(self._device.stream):
                raise self._failed(batch)
            arrays = [self._fetch(output, shape) for output, shape in zip(self._outputs, shapes)]
        finally:
            # After a failure too: the next call writes to this memory, or frees it.
            self._device.synchronize()
        return [output.element.read(array) for output, array in zip(self._outputs, arrays)]

    def _feed(self, batch: Array) -> int:
        """Write the batch to the host's side of the input's buffer and return its bytes."""
        storage = self._image.element.storage
        size = batch.size * storage.itemsize
        buffer = self._buffers[self._image.name]
        buffer.reserve(size)
        self._image.element.write(batch, buffer.host_array(storage, batch.shape))
        self._context.set_tensor_address(self._image.name, buffer.device_address)
        return size

    def _bind_output(self, output: EngineTensor) -> tuple[int, ...] | None:
        """Give an output memory; return its shape for the input's, None if that will depend on the data."""
        shape = tuple(self._context.get_tensor_shape(output.name))
        buffer = self._buffers[output.name]
        if -1 not in shape:
            buffer.reserve(max(_bytes(output, shape), 1))  # an empty output too needs an address
            self._context.set_tensor_address(output.name, buffer.device_address)
            return shape
        if output.name not in self._allocators:
            allocator = output_allocator(self._trt, buffer)
            self._context.set_output_allocator(output.name, allocator)
            self._allocators[output.name] = allocator
        allocator = self._allocators[output.name]
        allocator.shape = allocator.error = None
        return None

    def _fetch(self, output: EngineTensor, shape: tuple[int, ...] | None) -> Array:
        """Enqueue an output's way back and return where it will be."""
        if shape is None:
            shape = self._allocators[output.name].shape
            if shape is None:
                raise RunnerError(f"{self._artifact}: output {output.name}: the engine told no shape")
        buffer = self._buffers[output.name]
        size = _bytes(output, shape)
        if size:
            self._device.download(buffer, size)
        return buffer.host_array(output.element.storage, shape)

    def _failed(self, batch: Array) -> RunnerError:
        errors = [str(allocator.error) for allocator in self._allocators.values() if allocator.error]
        reason = (errors or [self._log.reason])[0]
        return RunnerError(f"{self._artifact}: TensorRT failed on a batch {list(batch.shape)}: {reason}")


def create(options: RunnerOptions) -> TensorRtRunner:
    """Load the plan that `options.artifact` names."""
    return TensorRtRunner(options)


def deserialize(trt: Any, log: ErrorLog, plan: Plan, artifact: str, gpu: str) -> Any:
    """Return the engine of a plan.

    `engine_host_code_allowed` stays false: a version-compatible plan may carry a shared library, which would then run
    in the server's process.

    Raises:
        RunnerError: The library refuses it: another version or GPU, or damage; the line says what built it.
    """
    log.clear()
    here = f"{plan.product} {trt.__version__}"
    try:
        # Plans name their plugins (EfficientNMS_TRT, ...), which are registered by this.
        trt.init_libnvinfer_plugins(log, "")
        engine = trt.Runtime(log).deserialize_cuda_engine(plan.content)
    # A runtime that cannot begin is a TypeError of the bindings' own making.
    except (TypeError, RuntimeError) as error:
        raise RunnerError(
            f"runtime tensorrt: {here} does not start: {log.reason} ({' '.join(str(error).split())})"
        ) from None
    if engine is None:
        raise RunnerError(
            f"{artifact}: built with {plan.product} {plan.version}, {here} on {gpu} refuses it: "
            f"{log.reason}; rebuild it on the target with {here}"
        )
    return engine


def _bytes(tensor: EngineTensor, shape: tuple[int, ...]) -> int:
    size = tensor.element.storage.itemsize
    for axis in shape:
        size *= axis
    return size


def _import_engine(plan: Plan, artifact: str) -> Any:
    """Return the module that runs plans of this product."""
    module, problem = _first_of(MODULES[plan.product])
    if module is not None:
        return module
    wanted = f"pip install {PACKAGES[plan.product]}=={plan.version}"
    (other,) = set(MODULES) - {plan.product}
    present, _ = _first_of(MODULES[other])
    if present is not None:
        here = f"{other} {present.__version__}"
        raise RunnerError(
            f"{artifact}: built with {plan.product} {plan.version}, here is only {here}, which cannot run it; "
            f"{wanted}, or rebuild it on the target with {here}"
        )
    raise RunnerError(
        f"runtime tensorrt: {MODULES[plan.product][0]} is not usable in the server's python ({problem}); {wanted}"
    )


def _import_cuda() -> Any:
    module, problem = _first_of(("cuda.bindings.runtime",))
    if module is None:
        raise RunnerError(
            f"runtime tensorrt: cuda.bindings is not usable in the server's python ({problem}); "
            "pip install cuda-bindings"
        )
    return module


def _first_of(names: Sequence[str]) -> tuple[Any, str]:
    """Return the first module that can be imported; None, and why the last one cannot, if there is none."""
    problem = ""
    for name in names:
        try:
            return importlib.import_module(name), ""
        except ModuleNotFoundError as error:
            absent = error.name is not None and f"{name}.".startswith(f"{error.name}.")
            problem = problem or ("not installed" if absent else str(error))
        # A library that it needs and that is missing is an OSError.
        except (ImportError, OSError) as error:
            problem = " ".join(str(error).split())
    return None, problem
