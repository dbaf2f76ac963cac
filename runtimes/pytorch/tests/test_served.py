"""One small network in three formats on the stock server: the same detections."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pytriton")
pytest.importorskip("tritonclient")
torch: Any = pytest.importorskip("torch")

from convertor.cli import main  # noqa: E402 - after the skips
from convertor.serve.process import running_server  # noqa: E402
from tests.builders import detector_manifest, write_package  # noqa: E402
from tests.clients import Client, detected  # noqa: E402

pytestmark = [pytest.mark.server, pytest.mark.filterwarnings("ignore")]
CLASSES = 3


class Head(torch.nn.Module):
    """A random YOLO head `[1, 4 + 3, 16]` whose boxes lie inside 32 x 32 pixels and do not overlap much."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.features = torch.nn.Conv2d(3, 4 + CLASSES, 8, stride=8)

    def forward(self, images: Any) -> Any:
        found = self.features(images).flatten(2)
        anchors = torch.arange(16, dtype=torch.float32).reshape(1, 1, 16)
        centres = torch.cat([anchors % 4 * 8 + 4, torch.div(anchors, 4, rounding_mode="floor") * 8 + 4], 1)
        return torch.cat([centres + found[:, :2].tanh(), 5 + found[:, 2:4].tanh(), found[:, 4:].sigmoid()], 1)


def files(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Return runtime -> (artifact name, content) of one network in every format."""
    model, image = Head().eval(), torch.rand(1, 3, 32, 32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(model, image).save(str(folder / "model.pt"))
        torch.export.save(torch.export.export(model, (image,)), folder / "model.pt2")
        torch.onnx.export(model, (image,), str(folder / "model.onnx"), dynamo=False, opset_version=17)
    names = {"script": "model.pt", "program": "model.pt2", "onnx": "model.onnx"}
    return {kind: (name, (folder / name).read_bytes()) for kind, name in names.items()}


def test_the_same_detections_from_every_format(tmp_path: Path) -> None:
    packages = []
    for kind, (name, content) in files(tmp_path).items():
        manifest = detector_manifest(num_classes=CLASSES, score_threshold=0.05)
        manifest.update(runtime="onnx" if kind == "onnx" else "pytorch", runtime_artifact=name)
        packages.append(write_package(tmp_path / f"{kind}.zip", manifest, {name: content}))
    assert main(["convert", *map(str, packages), "-o", str(tmp_path / "served")]) == 0
    image = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
    with running_server(tmp_path / "served") as server, Client(server) as client:
        assert not server.failed
        found = {kind: np.array(detected(client.capture(kind, image)), np.float64) for kind in files(tmp_path)}
    assert len(found["onnx"]) >= 3
    for kind in ("script", "program"):
        np.testing.assert_allclose(found[kind], found["onnx"], atol=1e-4)


def test_what_cannot_be_loaded_is_named_by_convert_and_by_the_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = Path(__file__).parent / "data" / "state_dict.pt"
    manifest = {**detector_manifest(num_classes=CLASSES), "runtime": "pytorch"}
    package = write_package(tmp_path / "state.zip", manifest, {"model.pt": state.read_bytes()})
    assert main(["convert", str(package), "-o", str(tmp_path / "served")]) != 0
    assert "got a pickled module or a state_dict, which is not loaded; export it with" in capsys.readouterr().err
    good = files(tmp_path)["script"][1]
    package = write_package(tmp_path / "on_gpu.zip", {**manifest, "device": "gpu"}, {"model.pt": good})
    assert main(["convert", str(package), "-o", str(tmp_path / "served")]) == 0
    if not torch.cuda.is_available():
        with running_server(tmp_path / "served") as server:
            assert "device gpu: no usable GPU 0, torch" in str(server.failed)
