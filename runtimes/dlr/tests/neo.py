"""Genuine DLR models, written without TVM: graph, weights and metadata by their formats, kernels by the C compiler.

The runtime's own operator `__copy` needs no kernel: a model of it works where there is no compiler, with any loadable
library in the kernels' place.
"""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
KERNELS = Path(__file__).with_name("kernels.c")
CODES = {"i": 0, "u": 1, "f": 2}


@dataclass(frozen=True)
class Node:
    """An operator with one output: `function` is a C function of the kernels, or `__copy`."""

    name: str
    shape: Sequence[int]
    inputs: Sequence[str]
    function: str = "__copy"
    dtype: str = "float32"


@dataclass(frozen=True)
class Model:
    """A compiled model; its arguments are inputs {name: (shape, dtype)} and weights, in that order or in `order`."""

    inputs: Mapping[str, tuple[Sequence[int], str]]
    nodes: Sequence[Node]
    outputs: Sequence[str]
    weights: Mapping[str, Array] = field(default_factory=dict)
    order: Sequence[str] = ()
    target: str | None = "cpu"
    names: Sequence[str] | None = None

    def graph(self) -> dict[str, Any]:
        """The graph executor's JSON."""
        arguments = {name: (list(shape), dtype) for name, (shape, dtype) in self.inputs.items()}
        arguments.update({name: (list(value.shape), value.dtype.name) for name, value in self.weights.items()})
        ordered = list(self.order or arguments)
        index = {name: position for position, name in enumerate([*ordered, *(node.name for node in self.nodes)])}
        nodes: list[dict[str, Any]] = [{"op": "null", "name": name, "inputs": []} for name in ordered]
        for node in self.nodes:
            attributes = {"func_name": node.function, "num_inputs": str(len(node.inputs)), "num_outputs": "1"}
            nodes.append(
                {
                    "op": "tvm_op",
                    "name": node.name,
                    "attrs": {**attributes, "flatten_data": "0"},
                    "inputs": [[index[source], 0, 0] for source in node.inputs],
                }
            )
        shapes = [arguments[name][0] for name in ordered] + [list(node.shape) for node in self.nodes]
        dtypes = [arguments[name][1] for name in ordered] + [node.dtype for node in self.nodes]
        return {
            "nodes": nodes,
            "arg_nodes": list(range(len(ordered))),
            "heads": [[index[name], 0, 0] for name in self.outputs],
            "node_row_ptr": list(range(len(nodes) + 1)),
            "attrs": {
                "dltype": ["list_str", dtypes],
                "shape": ["list_shape", shapes],
                "storage_id": ["list_int", list(range(len(nodes)))],
            },
        }

    def metadata(self) -> dict[str, Any]:
        """The content of compiled.meta."""
        shapes = {node.name: list(node.shape) for node in self.nodes}
        names = self.outputs if self.names is None else self.names
        inputs = [{"name": name, "dtype": dtype, "shape": list(shape)} for name, (shape, dtype) in self.inputs.items()]
        outputs = [{"name": name, "dtype": "float32", "shape": shapes.get(name, [])} for name in names]
        target = {"TargetDeviceType": self.target} if self.target else {}
        return {"Requirements": target, "Model": {"Inputs": inputs, "Outputs": outputs}}

    def files(self, kernels: bytes) -> dict[str, bytes]:
        """The files that Neo would have written."""
        return {
            "compiled.so": kernels,
            "compiled_model.json": json.dumps(self.graph()).encode(),
            "compiled.params": params(self.weights),
            "compiled.meta": json.dumps(self.metadata()).encode(),
        }


def params(weights: Mapping[str, Array]) -> bytes:
    """TVM's parameter file."""
    names = b"".join(struct.pack("<Q", len(name.encode())) + name.encode() for name in weights)
    blob = struct.pack("<QQQ", 0xF7E58D4F05049CB7, 0, len(weights)) + names + struct.pack("<Q", len(weights))
    for value in weights.values():
        data = np.ascontiguousarray(value).tobytes()
        kind = struct.pack("<BBH", CODES[value.dtype.kind], value.dtype.itemsize * 8, 1)
        shape = struct.pack(f"<i4s{value.ndim}q", value.ndim, kind, *value.shape)
        blob += struct.pack("<QQii", 0xDD5E40F096B4A13F, 0, 1, 0) + shape + struct.pack("<q", len(data)) + data
    return blob


def copier(shape: Sequence[int], dtype: str = "float32", out: Sequence[int] | None = None) -> Model:
    """A model that returns its input, under another shape if `out` says so."""
    return Model({"input": (shape, dtype)}, [Node("same", out or shape, ["input"], dtype=dtype)], ["same"])


def distance(height: int, width: int) -> Model:
    """An anomaly model with kernels: a smoothed map of each pixel's distance from a mean colour, and its maximum."""
    plane = [1, 1, height, width]
    weights = {
        "mean": np.array([0.5, 0.4, 0.3], np.float32).reshape(1, 3, 1, 1),
        "box": np.full((1, 1, 3, 3), 1 / 9, np.float32),
    }
    nodes = [
        Node("squares", plane, ["input", "mean"], "squared_distance"),
        Node("anomaly_map", plane, ["squares", "box"], "filter3"),
        Node("pred_score", [1, 1], ["anomaly_map"], "maximum"),
    ]
    return Model({"input": ([1, 3, height, width], "float32")}, nodes, ["anomaly_map", "pred_score"], weights)


def distance_reference(images: Array) -> tuple[Array, Array]:
    """The same in NumPy: (map [1, 1, H, W], score [1, 1])."""
    mean = np.array([0.5, 0.4, 0.3], np.float32).reshape(1, 3, 1, 1)
    padded = np.pad(((images - mean) ** 2).mean(axis=1, keepdims=True), ((0, 0), (0, 0), (1, 1), (1, 1)))
    height, width = images.shape[2:]
    windows = [padded[:, :, i : i + height, j : j + width] for i in range(3) for j in range(3)]
    smooth = (np.sum(windows, axis=0) / 9).astype(np.float32)
    return smooth, smooth.max(axis=(2, 3))


def compiler() -> str | None:
    """The C compiler, None where there is none."""
    return shutil.which("cc")


def compiled(target: Path) -> bytes:
    """The kernels as a shared library."""
    subprocess.run([compiler() or "cc", "-std=c99", "-O2", "-shared", "-fPIC", "-o", target, KERNELS], check=True)
    return target.read_bytes()


def needing(folder: Path, name: str) -> bytes:
    """A shared library that loads only where there is another one called `name`."""
    (folder / "other.c").write_text("int other(void) { return 1; }\n")
    (folder / "needing.c").write_text("int other(void);\nint needing(void) { return other(); }\n")
    command = [compiler() or "cc", "-shared", "-fPIC"]
    subprocess.run([*command, f"-Wl,-soname,{name}", "-o", folder / name, folder / "other.c"], check=True)
    subprocess.run([*command, "-o", folder / "needing.so", folder / "needing.c", folder / name], check=True)
    return (folder / "needing.so").read_bytes()


def save(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files into a new folder; return the kernels' path."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder / "compiled.so"
