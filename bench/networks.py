"""One small anomaly network in the format of every engine that this python has, and packages of it.

The network is `distance` of runtimes/dlr/tests/neo.py: a smoothed map of each pixel's distance from a mean colour, and
the map's maximum. Its inputs and outputs are the same everywhere: `input` float32 [1, 3, side, side], `anomaly_map`
[1, 1, side, side], `pred_score` [1, 1].
"""

from __future__ import annotations

import importlib.util
import json
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from runtimes.dlr.tests import neo, wheels
from tests.engines.networks import MEAN, anomaly

if TYPE_CHECKING:
    import torch

# As many weights and convolutions as YOLOv8n has.
LAYERS, CHANNELS = 60, 76


def available() -> dict[str, str]:
    """Return the formats that can be served by this python: name -> the manifest's runtime."""
    runtimes = {"onnx": "onnx", "torchscript": "pytorch", "pt2": "pytorch", "dlr": "dlr"}
    modules = {"onnx": ("onnxruntime", "onnx"), "pytorch": ("torch",), "dlr": ("dlr",)}
    found = {
        name: runtime
        for name, runtime in runtimes.items()
        if all(importlib.util.find_spec(module) for module in modules[runtime])
    }
    if neo.compiler() is None:
        found.pop("dlr", None)
    return found


def write(kind: str, folder: Path, side: int) -> Path:
    """Write the network into a new folder; return the artifact, as a runner takes it."""
    folder.mkdir(parents=True)
    return _WRITERS[kind](folder, side)


def write_large(kind: str, folder: Path) -> Path:
    """Write a stack of convolutions of YOLOv8n's size, with random weights, for torch; return the artifact."""
    import torch

    torch.manual_seed(0)
    folder.mkdir(parents=True)
    layers: list[Any] = []
    for index in range(LAYERS):
        layers += [torch.nn.Conv2d(CHANNELS if index else 3, CHANNELS, 3, padding=1), torch.nn.SiLU()]
    return _save_module(kind, torch.nn.Sequential(*layers).eval(), folder, 64)


def write_package(kind: str, path: Path, side: int, image_size: Sequence[int], **serving: int) -> Path:
    """Write a package of the network with two pixel classes, so that answers have a mask; return its path.

    Args:
        kind: A key of `available()`.
        path: The zip file.
        side: The network's height and width.
        image_size: Height and width of the images that will be sent.
        serving: The manifest's `serving`.
    """
    artifact = write(kind, path.with_suffix(".files"), side)
    manifest = {
        "runtime": available()[kind],
        "runtime_artifact": artifact.name,
        "model_graph": {
            "stages": [{"type": "distance", "threshold": 0.15, "input_shape": [1, 3, side, side]}],
            "pixel_level_classes": {"names": ["background", "scratch"]},
        },
        "dataset": {"image_height": image_size[0], "image_width": image_size[1]},
        "serving": serving,
    }
    if kind == "dlr":
        del manifest["runtime_artifact"]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as package:
        package.writestr("manifest.json", json.dumps(manifest))
        for file in sorted(artifact.parent.iterdir()):
            package.write(file, f"distance/{file.name}")
    return path


def _write_onnx(folder: Path, side: int) -> Path:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    plane = [1, 1, side, side]
    nodes = [
        helper.make_node("Sub", ["input", "mean"], ["difference"]),
        helper.make_node("Mul", ["difference", "difference"], ["squared"]),
        helper.make_node("ReduceMean", ["squared"], ["squares"], axes=[1], keepdims=1),
        helper.make_node("Conv", ["squares", "box"], ["anomaly_map"], pads=[1, 1, 1, 1]),
        helper.make_node("ReduceMax", ["anomaly_map"], ["peak"], axes=[2, 3], keepdims=0),
        helper.make_node("Identity", ["peak"], ["pred_score"]),
    ]
    graph = helper.make_graph(
        nodes,
        "distance",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 3, side, side])],
        [
            helper.make_tensor_value_info("anomaly_map", TensorProto.FLOAT, plane),
            helper.make_tensor_value_info("pred_score", TensorProto.FLOAT, [1, 1]),
        ],
        [
            numpy_helper.from_array(MEAN, "mean"),
            numpy_helper.from_array(np.full((1, 1, 3, 3), 1 / 9, np.float32), "box"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(folder / "model.onnx"))
    return folder / "model.onnx"


def _write_torch(kind: str) -> Callable[[Path, int], Path]:
    def write_module(folder: Path, side: int) -> Path:
        return _save_module(kind, anomaly(), folder, side)

    return write_module


def _save_module(kind: str, module: torch.nn.Module, folder: Path, side: int) -> Path:
    import torch

    image = torch.rand(1, 3, side, side)
    with warnings.catch_warnings():
        # TorchScript is deprecated; it is served all the same.
        warnings.simplefilter("ignore")
        if kind == "torchscript":
            torch.jit.trace(module, image).save(str(folder / "model.pt"))
            return folder / "model.pt"
        torch.export.save(torch.export.export(module, (image,)), folder / "model.pt2")
    return folder / "model.pt2"


def _write_dlr(folder: Path, side: int) -> Path:
    kernels = neo.compiled(folder / "compiled.so")
    files = {**neo.distance(side, side).files(kernels), "libdlr.so": wheels.library().read_bytes()}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder / "compiled.so"


_WRITERS: dict[str, Callable[[Path, int], Path]] = {
    "onnx": _write_onnx,
    "torchscript": _write_torch("torchscript"),
    "pt2": _write_torch("pt2"),
    "dlr": _write_dlr,
}
