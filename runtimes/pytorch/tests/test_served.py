"""One small network in three formats on the stock server: the same detections."""

from __future__ import annotations

import contextlib
import io
import sys
import types
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict  # noqa: UP035 - TorchScript reads it

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


def package(folder: Path, name: str, content: bytes, **top: Any) -> Path:
    manifest = detector_manifest(num_classes=CLASSES, score_threshold=0.05)
    return write_package(folder / f"{name}.zip", {**manifest, "runtime": "pytorch", **top}, {"model.pt": content})


def script(module: Any) -> bytes:
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(module), buffer)
    return buffer.getvalue()


def pickled(module: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(module, buffer)
    return buffer.getvalue()


def plain_head() -> Any:
    """A head whose classes are torch's own, so that a server can unpickle it."""
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4 + CLASSES, 8, stride=8), torch.nn.Sigmoid(), torch.nn.Flatten(2))


class Named(torch.nn.Module):
    """Returns a dict, whose head is not its first tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.head = plain_head()

    def forward(self, images: torch.Tensor) -> Dict[str, torch.Tensor]:  # noqa: UP006
        return {"features": images, "head": self.head(images)}


def pickled_elsewhere() -> bytes:
    """A pickle that needs a package that the server does not have."""
    there = types.ModuleType("ultralytics")
    exec("import torch\nclass Net(torch.nn.Identity):\n  pass", there.__dict__)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "ultralytics", there)
        return pickled(there.__dict__["Net"]())


@dataclass(frozen=True)
class Seen:
    """What one server with all of the models did.

    Attributes:
        found: Model -> its detections of one image.
        failed: Why models are not served.
        log: The server's.
        refused: What convert said of pickles without --allow-pickles.
    """

    found: Mapping[str, Any]
    failed: str
    log: str
    refused: str


def packages_of_every_format(folder: Path) -> Iterator[Path]:
    for kind, (name, content) in files(folder).items():
        manifest = detector_manifest(num_classes=CLASSES, score_threshold=0.05)
        manifest.update(runtime="onnx" if kind == "onnx" else "pytorch", runtime_artifact=name)
        yield write_package(folder / f"{kind}.zip", manifest, {name: content})


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = tmp_path_factory.mktemp("pytorch")
    packages = [
        *packages_of_every_format(folder),
        package(folder, "plain", script(plain_head())),
        package(folder, "named", script(Named()), outputs={"boxes": {"tensor": "head"}}),
        package(folder, "on_gpu", script(Named()), device="gpu"),
    ]
    pickles = [package(folder, "pickled", pickled(plain_head())), package(folder, "elsewhere", pickled_elsewhere())]
    repository = ["-o", str(folder / "served")]
    assert main(["convert", *map(str, packages), *repository]) == 0
    with contextlib.redirect_stderr(io.StringIO()) as refused:
        assert main(["convert", *map(str, pickles), *repository]) == 1
    assert main(["convert", *map(str, pickles), *repository, "--allow-pickles"]) == 0
    image = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
    served = ["onnx", "script", "program", "plain", "named", "pickled"]
    with running_server(folder / "served") as server, Client(server) as client:
        found = {name: np.array(detected(client.capture(name, image)), np.float64) for name in served}
        return Seen(found, str(server.failed), server.log_path.read_text("utf-8", "replace"), refused.getvalue())


@pytest.mark.parametrize("name", ["script", "program"])
def test_the_same_detections_from_every_format(seen: Seen, name: str) -> None:
    assert len(seen.found["onnx"]) >= 3
    np.testing.assert_allclose(seen.found[name], seen.found["onnx"], atol=1e-4)


def test_an_output_of_a_dict_is_chosen_by_its_name(seen: Seen) -> None:
    assert len(seen.found["plain"]) >= 1
    np.testing.assert_allclose(seen.found["named"], seen.found["plain"], atol=1e-4)


def test_b97_a_pickle_runs_only_when_the_operator_allows_it(seen: Seen) -> None:
    got = "got a pickled module (torch.nn.modules.container.Sequential), which is not loaded; export it with"
    assert f"error: pickled.zip: model.pt: expected TorchScript or a torch.export program, {got}" in seen.refused
    np.testing.assert_allclose(seen.found["pickled"], seen.found["plain"], atol=1e-4)
    assert "model.pt is a pickle: loading it runs code of the package's author with the server's rights" in seen.log


def test_b99_the_module_that_a_pickle_needs(seen: Seen) -> None:
    assert "model.pt: needs the python module 'ultralytics', which is not in the server's python; " in seen.failed


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_b90_a_gpu_that_is_not_there(seen: Seen) -> None:
    assert "device gpu: no usable GPU 0, torch" in seen.failed
    assert f"device auto: runs on the CPU: torch {torch.__version__} sees no GPU" in seen.log
