"""ONNX Runtime behind the runner contract.

Payload: runs inside the server's python (3.9 or newer); needs numpy, and onnxruntime when a model is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..contract import Array, RunnerError, RunnerOptions, TensorSpec
from .refusals import explain, one_line

# ONNX Runtime names element types "tensor(float)"; NumPy's names for those that an image graph may use.
DTYPES = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(uint8)": "uint8",
    "tensor(int8)": "int8",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
    "tensor(bool)": "bool",
}
PROVIDERS = {
    "cpu": ("CPUExecutionProvider",),
    "gpu": ("CUDAExecutionProvider", "CPUExecutionProvider"),
    "auto": ("CUDAExecutionProvider", "CPUExecutionProvider"),
    "tensorrt": ("TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"),
}


class OnnxRunner:
    """One ONNX Runtime session; `Runner` in ../contract.py says how it is called.

    Raises:
        RunnerError: onnxruntime is not installed, refuses the graph, or cannot use the GPU that was asked for.
    """

    def __init__(self, options: RunnerOptions) -> None:
        onnxruntime = _import_engine()
        session = _open_session(onnxruntime, options)
        _check_device(options.device, session.get_providers())
        self._artifact = options.artifact.name
        self._session: Any = session
        self.inputs: Sequence[TensorSpec] = _specs(session.get_inputs())
        self.outputs: Sequence[TensorSpec] = _specs(session.get_outputs())
        if len(self.inputs) != 1:
            names = ", ".join(spec.name for spec in self.inputs)
            raise RunnerError(
                f"{options.artifact.name}: expected one input (the image), got {len(self.inputs)}: {names}; "
                "export the model with the image as its only input"
            )
        self._dtype = np.dtype(self.inputs[0].dtype)
        self.details: Mapping[str, str] = {
            "engine": f"onnxruntime {onnxruntime.__version__}",
            "device": "cpu" if session.get_providers()[0] == "CPUExecutionProvider" else f"gpu {options.device_id}",
            "providers": ",".join(session.get_providers()),
            "threads": str(_thread_count(options)),
        }

    def __call__(self, batch: Array) -> list[Array]:
        """Run one batch, cast to the graph's dtype; floating outputs come back as float32.

        Raises:
            RunnerError: The engine fails on this batch, or was closed.
        """
        session = self._session
        if session is None:
            raise RunnerError(f"{self._artifact}: the runner is closed")
        feed = {self.inputs[0].name: np.ascontiguousarray(batch, self._dtype)}
        try:
            outputs = session.run(None, feed)
        # The engine's exceptions share no base class of their own.
        except Exception as error:
            reason = one_line(str(error))
            raise RunnerError(
                f"{self._artifact}: onnxruntime failed on a batch {list(batch.shape)}: {reason}"
            ) from error
        return [_as_float32(output) for output in outputs]

    def close(self) -> None:
        """Release the session."""
        self._session = None


def create(options: RunnerOptions) -> OnnxRunner:
    """Load the graph that `options.artifact` names."""
    return OnnxRunner(options)


def _import_engine() -> Any:
    # From 1.29 on it reports its use to Microsoft unless this is set before the import; the operator's own value stays.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import onnxruntime
    except ImportError as error:
        raise RunnerError(
            f"runtime onnx: onnxruntime is not usable in the server's python ({error}); pip install onnxruntime"
        ) from error
    return onnxruntime


def _open_session(onnxruntime: Any, options: RunnerOptions) -> Any:
    settings = onnxruntime.SessionOptions()
    # Set, not left to be guessed: a guess from the machine's cores ignores the CPUs a container may use.
    settings.intra_op_num_threads = _thread_count(options)
    settings.inter_op_num_threads = 1
    settings.log_severity_level = 3
    available = onnxruntime.get_available_providers()
    wanted: list[tuple[str, dict[str, Any]]] = [
        (name, {} if name == "CPUExecutionProvider" else {"device_id": options.device_id})
        for name in PROVIDERS[options.device]
        if name in available
    ]
    try:
        return onnxruntime.InferenceSession(str(options.artifact), settings, providers=wanted)
    # The engine's exceptions share no base class of their own.
    except Exception as error:
        raise RunnerError(explain(options.artifact.name, onnxruntime.__version__, str(error))) from error


def _thread_count(options: RunnerOptions) -> int:
    if options.threads:
        return options.threads
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _check_device(wanted: str, providers: Sequence[str]) -> None:
    if wanted in ("gpu", "tensorrt") and providers[0] == "CPUExecutionProvider":
        raise RunnerError(
            f"device {wanted}: no usable GPU, onnxruntime runs on {', '.join(providers)}; "
            "install onnxruntime-gpu and its CUDA libraries, or set device to auto"
        )


def _specs(tensors: Sequence[Any]) -> list[TensorSpec]:
    return [TensorSpec(tensor.name, _dtype_name(tensor), _dims(tensor.shape)) for tensor in tensors]


def _dtype_name(tensor: Any) -> str:
    name = DTYPES.get(tensor.type)
    if name is None:
        raise RunnerError(f"tensor {tensor.name}: type {tensor.type} is not one that can be served")
    return name


def _dims(shape: Sequence[Any]) -> tuple[int | None, ...]:
    return tuple(axis if isinstance(axis, int) and axis > 0 else None for axis in shape)


def _as_float32(output: Array) -> Array:
    return output.astype(np.float32, copy=False) if output.dtype.kind == "f" else output
