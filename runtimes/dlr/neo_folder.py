"""What a folder that SageMaker Neo wrote says of its tensors: names, types, shapes, and the device it is for.

DLR itself is no source for these: its input types can be those of weights, and its shapes are not to be had.

Payload: runs inside the server's python (3.9 or newer); the standard library is enough.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ..contract import RunnerError, TensorSpec

RUNTIME_LIBRARY = "libdlr.so"
# What SageMaker puts beside a model and DLR passes over.
NOT_THE_GRAPH = frozenset({"model-shapes.json", "hyperparams.json"})
# The CPU of an ELF file, by its number in the header.
CPUS = {3: "x86", 40: "32-bit ARM", 62: "x86-64", 183: "64-bit ARM"}
THIS_PROCESS = Path("/proc/self/exe")
DAMAGE = (ValueError, LookupError, TypeError, AttributeError)


@dataclass(frozen=True)
class Described:
    """A compiled model's tensors.

    Attributes:
        arguments: The graph's arguments, weights included, by name; empty where there is no graph.
        outputs: In the order in which a run returns them.
        target: The device type it was compiled for ("cpu", "gpu", "opencl"); None when it does not say.
    """

    arguments: Mapping[str, TensorSpec]
    outputs: Sequence[TensorSpec]
    target: str | None


def describe(folder: Path) -> Described:
    """Read the graph and the metadata of a folder; what only the metadata says counts where there is no graph.

    Raises:
        RunnerError: One of them would end the process in DLR, or is damaged.
    """
    inputs, outputs, target = _metadata(folder)
    named_inputs, named_outputs = _named(inputs), _named(outputs)
    graph = _only(folder, ".json")
    if graph is None:
        return Described({spec.name: spec for spec in named_inputs}, named_outputs, target)
    try:
        arguments, outputs = _graph(json.loads(graph.read_text("utf-8")))
    except DAMAGE as error:
        raise RunnerError(
            f"{graph.name}: is not the graph that TVM's executor reads ({error}); convert again"
        ) from error
    if len(named_outputs) == len(outputs):
        outputs = [TensorSpec(known.name, spec.dtype, spec.shape) for known, spec in zip(named_outputs, outputs)]
    return Described({spec.name: spec for spec in arguments}, outputs, target)


def check_cpu(folder: Path) -> None:
    """Refuse libraries that are built for another CPU: the loader says of them that there is no such file.

    Raises:
        RunnerError: There is one.
    """
    here = _cpu(THIS_PROCESS)
    for path in sorted(folder.glob("*.so")):
        built = _cpu(path)
        if None not in (here, built) and built != here:
            next_step = (
                "take it out to use the server's own" if path.name == RUNTIME_LIBRARY else "compile it for this one"
            )
            raise RunnerError(f"{path.name}: built for {built}, the server runs on {here}; {next_step}")


def _cpu(path: Path) -> str | None:
    """Return the name of the CPU that an ELF file is for; None where it is none or cannot be read."""
    try:
        with path.open("rb") as stream:
            head = stream.read(20)
    except OSError:
        return None
    if len(head) < 20 or head[:4] != b"\x7fELF":
        return None
    number = int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")
    return CPUS.get(number, f"CPU {number}")


def listing(folder: Path) -> str:
    """Return what lies in a folder, with sizes: what to look at when DLR gives no reason."""
    files = sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
    return ", ".join(f"{path.name} ({path.stat().st_size} bytes)" for path in files) or "nothing"


def _only(folder: Path, ending: str) -> Path | None:
    """Return the folder's file with an ending, None if there is none; DLR fails without a reason if there are two."""
    found = sorted(path for path in folder.glob(f"*{ending}") if path.is_file() and path.name not in NOT_THE_GRAPH)
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise RunnerError(f"{folder.name}: expected one *{ending}, got {names}; take the others out and convert again")
    return found[0] if found else None


def _metadata(folder: Path) -> tuple[list[Any], list[Any], str | None]:
    """Return inputs, outputs and target of .meta, nothing if it is no JSON: DLR does without, but dies of odd lists."""
    path = _only(folder, ".meta")
    name = path.name if path else ""
    try:
        value: Any = json.loads(path.read_text("utf-8")) if path else {}
    except ValueError:
        value = {}
    except RecursionError:
        raise RunnerError(f"{name}: is nested too deep for what Neo writes there; convert again") from None
    model = _part(value, "Model", dict, name)
    requirements = _part(value, "Requirements", dict, name)
    target = _part(requirements, "TargetDeviceType", str, name)
    return _part(model, "Inputs", list, name), _part(model, "Outputs", list, name), target or None


def _part(value: Any, key: str, kind: Callable[[], Any], name: str) -> Any:  # noqa: ANN401 - JSON
    """Return value[key], an empty one where it is missing; refuse a value or a part of another kind."""
    part: Any = cast("dict[str, Any]", value).get(key, kind()) if isinstance(value, dict) else None
    if type(part) is not kind:
        raise RunnerError(f"{name}: {key} is not what Neo writes there, and DLR crashes on it; convert again")
    return part


def _named(tensors: Sequence[Any]) -> list[TensorSpec]:
    try:
        return [TensorSpec(tensor["name"], tensor["dtype"], _dims(tensor["shape"])) for tensor in tensors]
    except DAMAGE:
        return []


def _graph(graph: Mapping[str, Any]) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """Return the arguments and the outputs of TVM's graph JSON."""
    first, shapes, dtypes = graph["node_row_ptr"], graph["attrs"]["shape"][1], graph["attrs"]["dltype"][1]

    def tensor(node: int, number: int) -> TensorSpec:
        entry = first[node] + number
        return TensorSpec(graph["nodes"][node]["name"], dtypes[entry], _dims(shapes[entry]))

    return [tensor(node, 0) for node in graph["arg_nodes"]], [tensor(head[0], head[1]) for head in graph["heads"]]


def _dims(shape: Sequence[Any]) -> tuple[int | None, ...]:
    return tuple(axis if isinstance(axis, int) and axis > 0 else None for axis in shape)
