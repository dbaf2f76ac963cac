"""DLR (SageMaker Neo's runtime) behind the runner contract.

Payload: runs inside the server's python (3.9 or newer); needs numpy, and dlr when a model is loaded.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ..contract import Array, RunnerError, RunnerOptions, TensorSpec
from ..cpus import thread_count
from ..slices import run_in_slices
from .native_stderr import captured_stderr
from .neo_folder import RUNTIME_LIBRARY, Described, check_cpu, describe, listing

# Neo compiles for TensorRT as part of a GPU model.
DEVICES = {"cpu": "cpu", "gpu": "gpu", "tensorrt": "gpu"}
LOGGER = "dlr.neologger_logger"
# "[12:30:59] /workspace/src/dlr.cc:321: " before a message of the C++ part, which may hold another such message.
ORIGIN = re.compile(r"\[\d\d:\d\d:\d\d\] \S+?:\d+: ")


class DlrRunner:
    """One compiled model; `Runner` in ../contract.py says how it is called.

    Raises:
        RunnerError: dlr is not installed, refuses the files, or cannot use the device that was asked for.
    """

    def __init__(self, options: RunnerOptions) -> None:
        folder = options.artifact.parent
        check_cpu(folder)
        described = describe(folder)
        device = _device(options.device, described.target, options.artifact.name)
        threads = _set_up_threads(options)
        dlr = _import_engine()
        self._artifact = options.artifact.name
        self._model: Any = _open_model(dlr, options, device)
        # DLR gives wrong results without an error when two threads use one model.
        self._lock = threading.Lock()
        self.inputs: Sequence[TensorSpec] = [_image_input(self._model, described, self._artifact)]
        self.outputs: Sequence[TensorSpec] = _outputs(self._model, described)
        self._dtype = _true_dtype(self._model, self.inputs[0], self._artifact)
        bundled = (folder / RUNTIME_LIBRARY).exists()
        self.details: Mapping[str, str] = {
            "engine": f"dlr {dlr.__version__}",
            "library": f"libdlr {self._model.get_version()} of {'the package' if bundled else 'the server'}",
            "device": "cpu" if device == "cpu" else f"{device} {options.device_id}",
            "threads": threads,
            **_fallback(options.device, device, described.target, self._artifact),
        }

    def __call__(self, batch: Array) -> list[Array]:
        """Run a batch of any length, cast to the graph's dtype; floating outputs come back as float32.

        Raises:
            RunnerError: The batch does not have the graph's shape, DLR fails on it, or the runner was closed.
        """
        shape = self.inputs[0].shape
        # DLR compares the number of elements only: NHWC in place of NCHW would be taken and give nonsense.
        if len(batch.shape) != len(shape) or any(
            wanted not in (None, got) for wanted, got in zip(shape[1:], batch.shape[1:])
        ):
            raise RunnerError(
                f"{self._artifact}: expected a batch {_written(shape)}, got {list(batch.shape)}; "
                f"set input_shape to {_written(shape)} in the manifest and convert again"
            )
        feed = np.ascontiguousarray(batch, self._dtype)
        outputs = run_in_slices(self._run, feed, shape[0], [spec.name for spec in self.outputs])
        return [output.astype(np.float32, copy=False) if output.dtype.kind == "f" else output for output in outputs]

    def close(self) -> None:
        """Release the model."""
        with self._lock:
            self._model = None

    def _run(self, part: Array) -> list[Array]:
        with self._lock:
            if self._model is None:
                raise RunnerError(f"{self._artifact}: the runner is closed")
            try:
                return self._model.run({self.inputs[0].name: part})
            # The wrapper raises bare exceptions of several kinds.
            except Exception as error:
                reason = _one_line(error) or "no reason given"
                raise RunnerError(f"{self._artifact}: dlr failed on a batch {list(part.shape)}: {reason}") from error


def create(options: RunnerOptions) -> DlrRunner:
    """Load the compiled model in the folder of `options.artifact`."""
    return DlrRunner(options)


def _import_engine() -> Any:
    # dlr.counter reports every load to its maker, without a time limit and with no switch: nothing of it may be run.
    silent = ModuleType("dlr.counter")
    silent.__dict__["call_phone_home"] = _unchanged
    sys.modules.setdefault("dlr.counter", silent)
    # Tracebacks of what is raised anyway; `disabled` lasts, levels and handlers are set anew by every model.
    logging.getLogger(LOGGER).disabled = True
    try:
        return importlib.import_module("dlr")
    except ImportError as error:
        raise RunnerError(
            f"runtime dlr needs the dlr package, not usable in the server's python ({error}); "
            "pip install --no-deps dlr==1.10.0"
        ) from error


def _unchanged(function: Any) -> Any:
    return function


def _set_up_threads(options: RunnerOptions) -> str:
    """Set what TVM's thread pool reads at its first run; the operator's settings stay, but for the manifest's count."""
    # Otherwise the first run ties its thread, and all that it starts, to the first half of the CPUs.
    os.environ.setdefault("TVM_BIND_THREADS", "0")
    # Otherwise idle workers burn 0.1 to 0.2 s of CPU after every run.
    os.environ.setdefault("TVM_THREAD_POOL_SPIN_COUNT", "0")
    if options.threads:
        os.environ["TVM_NUM_THREADS"] = str(options.threads)
    return os.environ.setdefault("TVM_NUM_THREADS", str(thread_count()))


def _device(wanted: str, target: str | None, artifact: str) -> str:
    """Return DLR's word for the device; a model is compiled for one, so `auto` is that one."""
    device = DEVICES.get(wanted, target or "cpu")
    if target is not None and device != target:
        raise RunnerError(
            f"device {wanted}: {artifact} was compiled for {target}; compile it for {device}, or set device to auto"
        )
    return device


def _fallback(wanted: str, device: str, target: str | None, artifact: str) -> dict[str, str]:
    if wanted != "auto" or device != "cpu":
        return {}
    reason = "was compiled for the CPU" if target else "names no device, which to DLR is the CPU"
    return {"fallback": f"{artifact} {reason}"}


def _open_model(dlr: Any, options: RunnerOptions, device: str) -> Any:
    folder = options.artifact.parent.absolute()
    if ":" in str(folder):
        raise RunnerError(f"{folder}: DLR takes a ':' in a path for a separator; move the repository to one without")
    with captured_stderr() as printed:
        try:
            return dlr.DLRModel(str(folder), device, options.device_id)
        # The wrapper raises bare exceptions of several kinds.
        except Exception as error:
            failure = error
    raise RunnerError(_explain(failure, printed(), options, device, folder)) from failure


def _explain(error: Exception, printed: str, options: RunnerOptions, device: str, folder: Path) -> str:
    """Return why a model was not loaded: newer libraries raise without a text, having printed the reason."""
    if type(error).__name__ == "DLRLibraryNotFound":
        return (
            f"no {RUNTIME_LIBRARY} in the package, and none in the server's python ({sys.prefix}/dlr): "
            f"pack the one for this device beside {options.artifact.name}"
        )
    reason = _one_line(error) or _last_words(printed) or "no reason given"
    if device != "cpu" and "could not be loaded" not in str(error):
        return (
            f"device {options.device}: this {RUNTIME_LIBRARY} cannot load the model for {device}: {reason}; "
            f"pack one that is built for {device}, or a model that is compiled for the CPU"
        )
    if "could not be loaded" in str(error):
        return (
            f"{RUNTIME_LIBRARY} could not be loaded: {reason}; "
            "take it out of the package to use the server's own, or pack the one for this device"
        )
    return f"{options.artifact.name}: dlr refuses the model: {reason}; in its folder: {listing(folder)}"


def _one_line(error: Exception) -> str:
    return _last_words(str(error))


def _last_words(text: str) -> str:
    """Return a message without where it comes from, on one line: file and line of the C++ part, its stack trace."""
    message = ORIGIN.sub("", text.partition("Stack trace")[0])
    return " ".join(message.rpartition("Error message(s): ")[2].split())[:500]


def _image_input(model: Any, described: Described, artifact: str) -> TensorSpec:
    names: list[str] = model.get_input_names()
    if len(names) != 1:
        raise RunnerError(
            f"{artifact}: expected one input (the image), got {len(names)}: {', '.join(names)}; "
            "compile the model with the image as its only input"
        )
    spec = described.arguments.get(names[0])
    if spec is None:
        raise RunnerError(f"{artifact}: input {names[0]} is in neither graph nor metadata; pack all of Neo's files")
    return spec


def _outputs(model: Any, described: Described) -> list[TensorSpec]:
    dtypes: list[str] = model.get_output_dtypes()
    if len(described.outputs) == len(dtypes):
        return list(described.outputs)
    return [TensorSpec("", dtype, ()) for dtype in dtypes]


def _true_dtype(model: Any, image: TensorSpec, artifact: str) -> np.dtype[Any]:
    """Return the image's dtype, after correcting DLR's list of them: it may hold the dtype of a weight there."""
    dtypes: list[str] = model.get_input_dtypes()
    dtypes[:] = [image.dtype]
    if model.get_input_dtype(0) != image.dtype:
        raise RunnerError(f"{artifact}: this dlr takes input {image.name} for another type than {image.dtype}")
    try:
        dtype = np.dtype(image.dtype)
    except TypeError:
        raise RunnerError(f"{artifact}: input {image.name}: type {image.dtype} is not one that can be served") from None
    # NumPy would wrap the brighter half of the pixels without a word.
    if not np.can_cast(np.uint8, dtype):
        raise RunnerError(
            f"{artifact}: input {image.name}: expected floating point or pixels from 0 to 255, got {dtype}; "
            "compile the model with a float32 input"
        )
    return dtype


def _written(shape: Sequence[int | None]) -> str:
    return f"[{', '.join('?' if axis is None else str(axis) for axis in shape)}]"
