"""PyTorch behind the runner contract: TorchScript and torch.export programs.

Payload: runs inside the server's python (3.9 or newer); needs numpy, and torch when a model is loaded.
"""

from __future__ import annotations

import importlib
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..contract import Array, RunnerError, RunnerOptions, TensorSpec
from .archive import TORCHSCRIPT, kind_of
from .program_checks import UnsafeProgramError, check_program

_LONGEST = 300
# NumPy has no bfloat16: such an input is fed from float32 and cast by torch.
_NAMES = {"bfloat16": "float32"}


class TorchRunner:
    """One TorchScript module or torch.export program; `Runner` in ../contract.py says how it is called.

    TorchScript knows neither names nor shapes: there its input and its outputs have no name and an empty shape, and
    how many tensors a list or a dict holds is known only after the first run. A dict's come in the order of the dict.

    Raises:
        RunnerError: torch is not installed, the artifact is refused, or there is no GPU that was asked for.
    """

    def __init__(self, options: RunnerOptions) -> None:
        torch = _import_engine()
        self._artifact = options.artifact.name
        kind = kind_of(options.artifact)
        self._device = _device(torch, options)
        threads = _thread_count(options)
        # For the whole process; Triton gives every model instance a process of its own.
        torch.set_num_threads(threads)
        self._torch: Any = torch
        try:
            opened = _open_script if kind == TORCHSCRIPT else _open_program
            self._module, self._dtype, self.inputs, self.outputs = opened(torch, options.artifact, self._device)
        except (RunnerError, MemoryError):
            raise
        # What a damaged or newer file makes torch raise has no base class of its own.
        except Exception as error:
            raise RunnerError(f"{self._artifact}: torch {torch.__version__} refuses it: {_one_line(error)}") from error
        self.details: Mapping[str, str] = {
            "engine": f"torch {torch.__version__}",
            "format": kind,
            "device": "cpu" if self._device.type == "cpu" else f"gpu {self._device.index}",
            "threads": str(threads),
        }

    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]

    def __call__(self, batch: Array) -> list[Array]:
        """Run one batch, cast to the model's dtype; floating outputs come back as float32.

        Raises:
            RunnerError: The engine fails on this batch, gives something that is no tensor, or was closed.
        """
        module, torch = self._module, self._torch
        if module is None:
            raise RunnerError(f"{self._artifact}: the runner is closed")
        # A copy where the array is not writable or turned: torch takes neither.
        tensor = torch.from_numpy(np.require(batch, requirements=["C", "W"])).to(self._device, self._dtype)
        try:
            with torch.inference_mode():
                arrays = [_as_array(torch, output) for output in _tensors(torch, module(tensor), self._artifact)]
        except RunnerError:
            raise
        except Exception as error:
            raise RunnerError(self._explain(list(batch.shape), error)) from error
        if not self.outputs:
            self.outputs = [TensorSpec("", str(array.dtype), ()) for array in arrays]
        return arrays

    def close(self) -> None:
        """Release the model."""
        self._module = None

    def _explain(self, shape: list[int], error: Exception) -> str:
        reason = str(error)
        if "on the same device" in reason or "two devices" in reason:
            return (
                f"{self._artifact}: has tensors that its export fixed to another device than {self._device}; "
                f"export it on that device, or set device to {'cpu' if self._device.type == 'cuda' else 'gpu'}"
            )
        return f"{self._artifact}: torch failed on a batch {shape}: {_one_line(error)}"


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


def _device(torch: Any, options: RunnerOptions) -> Any:
    wanted = options.device
    if wanted == "tensorrt":
        raise RunnerError("device tensorrt: torch does not run on TensorRT; set device to gpu, or runtime to tensorrt")
    if wanted != "cpu":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if options.device_id < count:
            return torch.device("cuda", options.device_id)
        if wanted == "gpu":
            raise RunnerError(
                f"device gpu: no usable GPU {options.device_id}, torch {torch.__version__} sees {count}; "
                "install a CUDA build of torch and its driver, or set device to auto"
            )
    return torch.device("cpu")


def _thread_count(options: RunnerOptions) -> int:
    if options.threads:
        return options.threads
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _open_script(torch: Any, path: Path, device: Any) -> tuple[Any, Any, list[TensorSpec], list[TensorSpec]]:
    module = torch.jit.load(str(path), map_location=device).eval()
    count = len(module.forward.schema.arguments) - 1
    _check_inputs(
        path.name, [argument.name for argument in module.forward.schema.arguments[1:]] if count != 1 else [""]
    )
    first = next((value for value in module.parameters() if value.is_floating_point()), None)
    dtype = torch.float32 if first is None else first.dtype
    known = _tensor_count(module.forward.schema.returns[0].type)
    return module, dtype, [TensorSpec("", _numpy_name(dtype), ())], [TensorSpec("", "float32", ())] * known


def _tensor_count(kind: Any) -> int:
    """Return how many tensors a TorchScript type holds; 0 where that is known only when it runs."""
    if kind.kind() == "TupleType":
        counts = [_tensor_count(element) for element in kind.elements()]
        return sum(counts) if all(counts) else 0
    return 1 if kind.kind() == "TensorType" else 0


def _open_program(torch: Any, path: Path, device: Any) -> tuple[Any, Any, list[TensorSpec], list[TensorSpec]]:
    _check_program(torch, path)
    program = torch.export.load(str(path))
    signature = program.graph_signature
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    _check_inputs(path.name, signature.user_inputs)
    tensors: list[Any] = [values[signature.user_inputs[0]], *(values.get(name) for name in signature.user_outputs)]
    if any(not isinstance(value, torch.Tensor) for value in tensors):
        raise RunnerError(f"{path.name}: expected tensors in and out, got something else; export it with tensors only")
    specs = [_spec(name, v) for name, v in zip([*signature.user_inputs, *signature.user_outputs], tensors)]
    if device.type != "cpu":
        program = importlib.import_module("torch.export.passes").move_to_device_pass(program, str(device))
    # Without guards: they are source text of the artifact, which torch would execute. Shapes are checked all the same.
    module = program.module(check_guards=False)
    return module, tensors[0].dtype, specs[:1], specs[1:]


def _check_program(torch: Any, path: Path) -> None:
    reader = torch._C.PyTorchFileReader(str(path))

    def is_plain(content: bytes) -> bool:
        try:
            torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        # A refused pickle and a damaged one are equally not loaded.
        except Exception:
            return False
        return True

    try:
        check_program(reader.get_all_records(), reader.get_record, is_plain)
    except UnsafeProgramError as error:
        raise RunnerError(f"{path.name}: {error}; it is not loaded, save it with torch.export.save") from None


def _check_inputs(artifact: str, names: Sequence[str]) -> None:
    if len(names) != 1:
        raise RunnerError(
            f"{artifact}: expected one input (the image), got {len(names)}: {', '.join(map(str, names))}; "
            "export the model with the image as its only input"
        )


def _spec(name: str, value: Any) -> TensorSpec:
    shape = tuple(axis if type(axis) is int else None for axis in value.shape)
    return TensorSpec(name, _numpy_name(value.dtype), shape)


def _numpy_name(dtype: Any) -> str:
    name = str(dtype).rpartition(".")[2]
    return _NAMES.get(name, name)


def _tensors(torch: Any, value: Any, artifact: str) -> Iterator[Any]:
    """Yield the tensors of nested tuples, lists and dicts in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list, dict)):
        entries = cast("Any", value.values() if isinstance(value, dict) else value)
        for entry in entries:
            yield from _tensors(torch, entry, artifact)
    elif value is not None:
        raise RunnerError(
            f"{artifact}: expected tensors as outputs, got {type(value).__name__}; export it with tensors only"
        )


def _as_array(torch: Any, tensor: Any) -> Array:
    tensor = tensor.detach()
    if tensor.is_floating_point():
        tensor = tensor.to(torch.float32)
    return tensor.cpu().contiguous().numpy()


def _one_line(error: Exception) -> str:
    # TorchScript puts the reason last, below the model's own source.
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reasons = [line for line in lines if line.startswith(("RuntimeError:", "Error:"))]
    return (reasons[-1] if reasons else " ".join(lines) or type(error).__name__)[:_LONGEST]
