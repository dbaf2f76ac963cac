"""Opens each kind of PyTorch file, after the checks that go with it.

Payload: runs inside the server's python (3.9 or newer); needs numpy, and torch when a model is loaded.
"""

from __future__ import annotations

import importlib
import inspect
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from ..contract import RunnerError, TensorSpec
from .archive import EXPORT, PICKLE, TORCHSCRIPT
from .program_checks import UnsafeProgramError, check_program
from .script_checks import UnsafeScriptError, check_script, fixed_devices

# NumPy has no bfloat16: such an input is fed from float32 and cast by torch.
_NAMES = {"bfloat16": "float32"}
_RUNS_CODE = "loading it runs code of the package's author with the server's rights; allowed by convert --allow-pickles"


@dataclass(frozen=True)
class Opened:
    """A loaded model.

    Attributes:
        module: Called with one tensor on the device.
        dtype: What torch calls the input's element type.
        inputs: The image.
        outputs: Empty where they are known after the first run only.
        warning: What was loaded although it runs code; empty else.
        devices: Kinds of device that the model's own code names.
    """

    module: Any
    dtype: Any
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    warning: str = ""
    devices: frozenset[str] = frozenset()


def open_model(torch: ModuleType, path: Path, kind: str, device: object, allow_pickles: bool) -> Opened:
    """Load a file of a kind that archive.py tells.

    Args:
        torch: The engine.
        path: The file.
        kind: TORCHSCRIPT, PROGRAM or PICKLE.
        device: Where its tensors go, a torch.device.
        allow_pickles: Whether a program may be loaded that fails its checks.

    Raises:
        RunnerError: It is refused. What torch itself raises has no base class of its own and is left as it is.
    """
    try:
        if kind == TORCHSCRIPT:
            return _open_script(torch, path, device)
        if kind == PICKLE:
            return _open_pickle(torch, path, device)
        return _open_program(torch, path, device, allow_pickles)
    except ModuleNotFoundError as error:
        raise RunnerError(
            f"{path.name}: needs the python module {error.name!r}, which is not in the server's python; "
            "pip install it or export TorchScript"
        ) from error


def _open_script(torch: ModuleType, path: Path, device: object) -> Opened:
    reader = torch._C.PyTorchFileReader(str(path))
    members = reader.get_all_records()
    try:
        check_script(members, reader.get_record)
    except UnsafeScriptError as error:
        raise RunnerError(f"{path.name}: {error}; it is not loaded, export it without that") from None
    module = torch.jit.load(str(path), map_location=device).eval()
    names = [argument.name for argument in module.forward.schema.arguments[1:]]
    if len(names) != 1:
        raise _one_input(path.name, names)
    known = _tensor_count(module.forward.schema.returns[0].type)
    opened = _opened(torch, module, [TensorSpec("", "float32", ())] * known)
    return replace(opened, devices=fixed_devices(members, reader.get_record))


def _tensor_count(kind: Any) -> int:  # noqa: ANN401 - torch ships no types
    """Return how many tensors a TorchScript type holds; 0 where that is known only when it runs."""
    if kind.kind() == "TupleType":
        counts = [_tensor_count(element) for element in kind.elements()]
        return sum(counts) if all(counts) else 0
    return 1 if kind.kind() == "TensorType" else 0


def _open_pickle(torch: ModuleType, path: Path, device: object) -> Opened:
    try:
        module = torch.load(str(path), map_location=device, weights_only=False)
    # The module is there in another version, or it was the script that saved the file.
    except AttributeError as error:
        raise RunnerError(
            f"{path.name}: needs what the server's python does not have: {error}; "
            "pip install the version that it was saved with or export TorchScript"
        ) from error
    if not isinstance(module, torch.nn.Module):
        got = "a state_dict or a checkpoint (a dict)" if isinstance(module, Mapping) else type(module).__name__
        raise RunnerError(f"{path.name}: expected a pickled module, got {got}; {EXPORT}")
    return _opened(torch, module.eval().to(device), [], f"{path.name} is a pickle: {_RUNS_CODE}")


def _opened(torch: ModuleType, module: Any, outputs: list[TensorSpec], warning: str = "") -> Opened:  # noqa: ANN401
    """Return a module that says neither names nor shapes; its first parameter says what it is fed."""
    first = next((value for value in module.parameters() if value.is_floating_point()), None)
    dtype = torch.float32 if first is None else first.dtype
    return Opened(module, dtype, [TensorSpec("", _numpy_name(dtype), ())], outputs, warning)


def _open_program(torch: ModuleType, path: Path, device: object, allow_pickles: bool) -> Opened:
    _check_exporter(torch, path.name)
    unsafe = _unsafe(torch, path)
    if unsafe and not allow_pickles:
        raise RunnerError(f"{path.name}: {unsafe}; it is not loaded, save it with torch.export.save")
    program = _load_program(torch, path)
    signature = program.graph_signature
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    if len(signature.user_inputs) != 1:
        raise _one_input(path.name, signature.user_inputs)
    tensors: list[Any] = [values[signature.user_inputs[0]], *(values.get(name) for name in signature.user_outputs)]
    if any(not isinstance(value, torch.Tensor) for value in tensors):
        raise RunnerError(f"{path.name}: expected tensors in and out, got something else; export it with tensors only")
    specs = [_spec(name, v) for name, v in zip([*signature.user_inputs, *signature.user_outputs], tensors)]
    program = importlib.import_module("torch.export.passes").move_to_device_pass(program, str(device))
    # Without guards: they are source text of the artifact, which torch would execute. Shapes are checked all the same.
    module = program.module(check_guards=False)
    warning = f"{path.name}: {unsafe}: {_RUNS_CODE}" if unsafe else ""
    return Opened(module, tensors[0].dtype, specs[:1], specs[1:], warning)


def _load_program(torch: ModuleType, path: Path) -> Any:  # noqa: ANN401
    try:
        return torch.export.load(str(path))
    except Exception as error:
        # Weights are put where they were saved before anything can move them.
        record = torch._C.PyTorchFileReader(str(path)).get_record("models/model.json")
        if torch.cuda.is_available() or b'"type": "cuda"' not in record:
            raise
        raise RunnerError(
            f"{path.name}: was exported on a GPU, and torch {torch.__version__} sees none; export it on the CPU"
        ) from error


def _check_exporter(torch: ModuleType, artifact: str) -> None:
    """Refuse a torch that would execute a program's guards, or has none of this: TorchScript is all that it can run."""
    program = getattr(importlib.import_module("torch.export"), "ExportedProgram", None)
    if program is None or "check_guards" not in inspect.signature(program.module).parameters:
        raise RunnerError(
            f"{artifact}: a torch.export program needs torch 2.9 or newer, got {torch.__version__}; "
            "install a newer torch or export TorchScript"
        )


def _unsafe(torch: ModuleType, path: Path) -> str:
    """Return why loading a program could run code, or nothing."""
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
        return str(error)
    return ""


def _one_input(artifact: str, names: Sequence[object]) -> RunnerError:
    return RunnerError(
        f"{artifact}: expected one input (the image), got {len(names)}: {', '.join(map(str, names))}; "
        "export the model with the image as its only input"
    )


def _spec(name: str, value: Any) -> TensorSpec:  # noqa: ANN401
    shape = tuple(axis if type(axis) is int else None for axis in value.shape)
    return TensorSpec(name, _numpy_name(value.dtype), shape)


def _numpy_name(dtype: object) -> str:
    name = str(dtype).rpartition(".")[2]
    return _NAMES.get(name, name)
