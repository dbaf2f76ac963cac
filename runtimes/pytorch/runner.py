"""PyTorch behind the runner contract: TorchScript, torch.export programs, and pickles that the operator allows.

Payload: runs inside the server's python (3.9 or newer); needs numpy, and torch when a model is loaded.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ..contract import Array, RunnerError, RunnerOptions, TensorSpec
from ..cpus import thread_count
from ..slices import run_in_slices
from .archive import kind_of
from .loading import Opened, open_model

_LONGEST = 300
_MISMATCHES = ("on the same device", "two devices", "on the expected device")


class TorchRunner:
    """One PyTorch model; `Runner` in ../contract.py says how it is called.

    TorchScript and pickled modules know neither names nor shapes: there the input has no name and an empty shape. How
    many tensors a list or a dict holds is known only after the first run. A dict's come in the order of the dict, named
    by their keys; what lies deeper in it is `key.0` or `key.key`. No other output of these has a name.

    `details["warning"]` is there where a file was loaded that runs code of its own.

    Raises:
        RunnerError: torch is not installed, the artifact is refused, or there is no GPU that was asked for.
    """

    def __init__(self, options: RunnerOptions) -> None:
        torch = _import_engine()
        self._artifact = options.artifact.name
        kind = kind_of(options.artifact, options.allow_pickles)
        self._device, fallback = _device(torch, options)
        threads = thread_count(options.threads)
        # For the whole process; Triton gives every model instance a process of its own.
        torch.set_num_threads(threads)
        # torch's own default is on for convolutions and off for matrix products.
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = options.tf32
        self._torch: Any = torch
        try:
            opened: Opened = open_model(torch, options.artifact, kind, self._device, options.allow_pickles)
        except (RunnerError, MemoryError):
            raise
        # What a damaged or newer file makes torch raise has no base class of its own.
        except Exception as error:
            # Whatever went wrong, the file's own code may have run by then.
            ran = " (code of the file may have run: --allow-pickles)" if options.allow_pickles else ""
            raise RunnerError(
                f"{self._artifact}: torch {torch.__version__} refuses it{ran}: {_one_line(error)}; "
                f"export it with torch {torch.__version__}, or install the torch that wrote it"
            ) from error
        self._module, self._dtype, self._devices = opened.module, opened.dtype, opened.devices
        self.inputs: Sequence[TensorSpec] = opened.inputs
        self.outputs: Sequence[TensorSpec] = opened.outputs
        self._batch = next(iter(opened.inputs[0].shape), None)
        details = {
            "engine": f"torch {torch.__version__}",
            "format": kind,
            "device": "cpu" if self._device.type == "cpu" else f"gpu {self._device.index}",
            "threads": str(threads),
            "fallback": fallback,
            "warning": opened.warning,
        }
        self.details: Mapping[str, str] = {key: value for key, value in details.items() if value}

    def __call__(self, batch: Array) -> list[Array]:
        """Run one batch, cast to the model's dtype; floating outputs come back as float32.

        Raises:
            RunnerError: The engine fails on this batch, gives something that is no tensor, or was closed.
        """
        return run_in_slices(self._run, batch, self._batch, [spec.name for spec in self.outputs])

    def close(self) -> None:
        """Release the model."""
        self._module = None

    def _run(self, batch: Array) -> list[Array]:
        module, torch = self._module, self._torch
        if module is None:
            raise RunnerError(f"{self._artifact}: the runner is closed")
        # A copy where the array is not writable or turned: torch takes neither.
        tensor = torch.from_numpy(np.require(batch, requirements=["C", "W"])).to(self._device, self._dtype)
        try:
            with torch.inference_mode():
                named = list(_tensors(torch, module(tensor), self._artifact))
                arrays = [_as_array(tensor) for _, tensor in named]
        except RunnerError:
            raise
        except Exception as error:
            raise RunnerError(self._explain(list(batch.shape), error)) from error
        if not self.outputs:
            self.outputs = [TensorSpec(name, str(array.dtype), ()) for (name, _), array in zip(named, arrays)]
        return arrays

    def _explain(self, shape: list[int], error: Exception) -> str:
        if any(text in str(error) for text in _MISMATCHES):
            return (
                f"{self._artifact}: has tensors that its export fixed to another device than {self._device}; "
                f"export it on that device, or set device to {'cpu' if self._device.type == 'cuda' else 'gpu'}"
            )
        others = ", ".join(sorted(self._devices - {self._device.type}))
        hint = f"; its export fixed tensors to {others}: export it on the device that serves it" if others else ""
        if not hint and "is invalid for input of size" in str(error):
            # A script does not say what batch it was traced with.
            hint = "; it may have been traced with another batch or size: export it with a free batch, or as a program"
        return f"{self._artifact}: torch failed on a batch {shape}: {_one_line(error)}{hint}"


def create(options: RunnerOptions) -> TorchRunner:
    """Load the model that `options.artifact` names."""
    return TorchRunner(options)


def _import_engine() -> Any:
    try:
        return importlib.import_module("torch")
    except (ImportError, OSError) as error:
        raise RunnerError(
            f"runtime pytorch: torch is not usable in the server's python ({error}); pip install torch"
        ) from error


def _device(torch: Any, options: RunnerOptions) -> tuple[Any, str]:
    """Return the device, and why it is the CPU where a GPU would have been taken."""
    wanted = options.device
    if wanted == "tensorrt":
        raise RunnerError("device tensorrt: torch does not run on TensorRT; set device to gpu, or runtime to tensorrt")
    if wanted == "cpu":
        return torch.device("cpu"), ""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if options.device_id < count:
        return torch.device("cuda", options.device_id), ""
    if wanted == "gpu":
        raise RunnerError(
            f"device gpu: no usable GPU {options.device_id}, torch {torch.__version__} sees {count}; "
            "install a CUDA build of torch and its driver, or set device to auto"
        )
    seen = f"only {count}, not number {options.device_id}" if count else "no GPU"
    return torch.device("cpu"), f"torch {torch.__version__} sees {seen}"


def _tensors(torch: Any, value: Any, artifact: str, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the tensors of nested tuples, lists and dicts in order, each with its name or an empty one."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, entry in cast("Mapping[Any, Any]", value).items():
            yield from _tensors(torch, entry, artifact, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (tuple, list)):
        for index, entry in enumerate(cast("Sequence[Any]", value)):
            yield from _tensors(torch, entry, artifact, name and f"{name}.{index}")
    elif value is not None:
        raise RunnerError(
            f"{artifact}: expected tensors as outputs, got {type(value).__name__}; export it with tensors only"
        )


def _as_array(tensor: Any) -> Array:
    tensor = tensor.detach()
    if tensor.is_floating_point():
        tensor = tensor.float()
    return tensor.cpu().contiguous().numpy()


def _one_line(error: Exception) -> str:
    # TorchScript puts the reason last, below the model's own source.
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reasons = [line for line in lines if line.startswith(("RuntimeError:", "Error:"))]
    return (reasons[-1] if reasons else " ".join(lines) or type(error).__name__)[:_LONGEST]
