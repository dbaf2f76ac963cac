"""ONNX Runtime behind the runner contract.

Payload: runs inside the server's python (3.9 or newer); needs numpy, and onnxruntime when a model is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..contract import Array, RunnerError, RunnerOptions, TensorSpec
from ..cpus import thread_count
from ..slices import run_in_slices
from .refusals import one_line
from .session import CPU, Session, open_session

# ONNX Runtime names element types "tensor(float)"; NumPy's names for those that it can take and give.
DTYPES = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(uint8)": "uint8",
    "tensor(uint16)": "uint16",
    "tensor(uint32)": "uint32",
    "tensor(uint64)": "uint64",
    "tensor(int8)": "int8",
    "tensor(int16)": "int16",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
    "tensor(bool)": "bool",
}


class OnnxRunner:
    """One ONNX Runtime session; `Runner` in ../contract.py says how it is called.

    Raises:
        RunnerError: onnxruntime is not installed, refuses the graph, or cannot use the GPU that was asked for.
    """

    def __init__(self, options: RunnerOptions) -> None:
        onnxruntime = _import_engine()
        threads = thread_count(options.threads)
        session, fallback = open_session(onnxruntime, options, threads)
        self._session: Session | None = session
        self._artifact = options.artifact.name
        self.inputs: Sequence[TensorSpec] = _specs(session.get_inputs())
        self.outputs: Sequence[TensorSpec] = _specs(session.get_outputs())
        _check_inputs(self._artifact, self.inputs)
        self._dtype = np.dtype(self.inputs[0].dtype)
        self._batch = self.inputs[0].shape[0] if self.inputs[0].shape else None
        providers = session.get_providers()
        self.details: Mapping[str, str] = {
            "engine": f"onnxruntime {onnxruntime.__version__}",
            "device": "cpu" if providers[0] == CPU else f"gpu {options.device_id}",
            "providers": ",".join(providers),
            "threads": str(threads),
            **({"fallback": fallback} if fallback else {}),
        }

    def __call__(self, batch: Array) -> list[Array]:
        """Run a batch of any length, cast to the graph's dtype; floating outputs come back as float32.

        A batch that fails in a graph of free batch size is not tried again image by image: a graph that was traced with
        one image may as well answer several with wrong numbers, which nothing shows, so it has to be exported again.

        Raises:
            RunnerError: The engine fails on this batch, or was closed.
        """
        feed = np.ascontiguousarray(batch, self._dtype)
        outputs = run_in_slices(self._run, feed, self._batch, [spec.name for spec in self.outputs])
        return [output.astype(np.float32, copy=False) if output.dtype.kind == "f" else output for output in outputs]

    def close(self) -> None:
        """Release the session."""
        self._session = None

    def _run(self, part: Array) -> list[Array]:
        session = self._session
        if session is None:
            raise RunnerError(f"{self._artifact}: the runner is closed")
        try:
            return session.run(None, {self.inputs[0].name: part})
        # The engine's exceptions share no base class of their own.
        except Exception as error:
            reason = one_line(str(error))
            raise RunnerError(
                f"{self._artifact}: onnxruntime failed on a batch {list(part.shape)}: {reason}"
            ) from error


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


def _check_inputs(artifact: str, inputs: Sequence[TensorSpec]) -> None:
    if len(inputs) != 1:
        names = ", ".join(spec.name for spec in inputs) or "none"
        raise RunnerError(
            f"{artifact}: expected one input (the image), got {len(inputs)}: {names}; "
            "export the model with the image as its only input"
        )
    # NumPy would wrap the brighter half of the pixels without a word.
    if not np.can_cast(np.uint8, inputs[0].dtype):
        raise RunnerError(
            f"{artifact}: input {inputs[0].name}: expected floating point or pixels from 0 to 255, "
            f"got {inputs[0].dtype}; export it with a float32 input"
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
