"""Two small networks, each exported from one torch module for every engine that can run it here.

Weights come from NumPy's generator, which gives the same numbers with every version; importing this needs no torch.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from runtimes.dlr.tests import neo, wheels
from tests.builders import anomaly_manifest, detector_manifest

Array = np.ndarray[Any, Any]
SIDE = 96
ANOMALY_SIDE = 32
STRIDE = 8
CLASSES = ("bolt", "nut")
SCORE_THRESHOLD = 0.6
ANOMALY_THRESHOLD = 0.27
MEAN = np.array([0.5, 0.4, 0.3], np.float32).reshape(1, 3, 1, 1)
RUNTIMES = {"onnx": "onnx", "script": "pytorch", "program": "pytorch", "dlr": "dlr"}
_FILES = {"onnx": "model.onnx", "script": "model.pt", "program": "model.pt2"}


def detector() -> Any:
    """Return a module [1, 3, 96, 96] -> a YOLO head [1, 4 + 2, 144]: one anchor per 8 x 8 pixels, overlapping boxes."""
    torch: Any = importlib.import_module("torch")
    drawn = np.random.default_rng(4)

    def convolution(taken: int, given: int, size: int, scale: float, **options: int) -> Any:
        layer = torch.nn.Conv2d(taken, given, size, **options)
        weights = drawn.standard_normal((given, taken, size, size)).astype(np.float32)
        layer.weight.data = torch.from_numpy(weights * np.float32(scale))
        layer.bias.data = torch.zeros(given)
        return layer

    class Detector(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features = torch.nn.Sequential(
                convolution(3, 12, 8, 0.25, stride=STRIDE),
                torch.nn.SiLU(),
                convolution(12, 12, 3, 0.15, padding=1),
                torch.nn.SiLU(),
                convolution(12, 4 + len(CLASSES), 1, 0.8),
            )
            cells = np.stack(np.meshgrid(*[np.arange(SIDE // STRIDE)] * 2)).reshape(1, 2, -1)
            self.register_buffer("centres", torch.from_numpy((cells * STRIDE + STRIDE / 2).astype(np.float32)))

        def forward(self, images: Any) -> Any:
            found = self.features(images - 0.5).flatten(2)
            centres = self.centres + STRIDE * found[:, :2].tanh()
            sides = 18 + 10 * found[:, 2:4].tanh()
            return torch.cat([centres, sides, found[:, 4:].sigmoid()], 1)

    return Detector().eval()


def anomaly() -> Any:
    """Return a module [1, 3, 32, 32] -> (map [1, 1, 32, 32], score [1, 1]): `neo.distance` in torch."""
    torch: Any = importlib.import_module("torch")

    class Distance(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.from_numpy(MEAN))
            self.smooth = torch.nn.Conv2d(1, 1, 3, padding=1, bias=False)
            self.smooth.weight.data = torch.full((1, 1, 3, 3), 1 / 9)

        def forward(self, images: Any) -> Any:
            plane = self.smooth(((images - self.mean) ** 2).mean(1, keepdim=True))
            return plane, plane.flatten(1).amax(1, keepdim=True)

    return Distance().eval()


def exported(
    module: Any, side: int, folder: Path, channels: int = 3, dtype: str = "float32"
) -> dict[str, dict[str, bytes]]:
    """Return {"onnx", "script", "program"} -> {file name: content} of one module."""
    torch: Any = importlib.import_module("torch")
    image = torch.zeros(1, channels, side, side, dtype=getattr(torch, dtype))
    paths = {kind: folder / name for kind, name in _FILES.items()}
    # Each exporter announces the next one.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (image,), str(paths["onnx"]), dynamo=False, opset_version=17)
        torch.jit.trace(module, image).save(str(paths["script"]))
        torch.export.save(torch.export.export(module, (image,)), paths["program"])
    return {kind: {path.name: path.read_bytes()} for kind, path in paths.items()}


def compiled(folder: Path) -> dict[str, bytes]:
    """Return the files of the anomaly model as Neo would have written them, with the runtime's library."""
    files = neo.distance(ANOMALY_SIDE, ANOMALY_SIDE).files(neo.compiled(folder / "compiled.so"))
    return {**files, "libdlr.so": wheels.library().read_bytes()}


def detector_package(kind: str) -> dict[str, Any]:
    """Return the detector's manifest for an export."""
    said = detector_manifest(class_names=list(CLASSES), score_threshold=SCORE_THRESHOLD)
    said["model_graph"]["stages"][0]["input_shape"] = [1, 3, SIDE, SIDE]
    return {**said, **engine(kind)}


def anomaly_package(kind: str, **top: Any) -> dict[str, Any]:
    """Return the anomaly model's manifest for an export; one for dlr does not name its engine.

    It names the outputs by number, so that their order counts.
    """
    said = anomaly_manifest(["background", "scratch"], threshold=ANOMALY_THRESHOLD)
    del said["runtime"]
    said["model_graph"]["stages"][0]["input_shape"] = [1, 3, ANOMALY_SIDE, ANOMALY_SIDE]
    outputs = {"map": {"tensor": 0}, "score": {"tensor": 1}}
    return {**said, "outputs": outputs, **engine(kind), **top}


def engine(kind: str) -> Mapping[str, str]:
    """Return what a manifest says of an export's engine."""
    return {} if kind == "dlr" else {"runtime": RUNTIMES[kind], "runtime_artifact": _FILES[kind]}
