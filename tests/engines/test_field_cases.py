"""Field cases in which the engine has a part, on the stock server, by each engine that can show them."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engines import needs

needs.need("pytriton", "onnxruntime", "torch", "dlr")

from convertor.serve.process import Server, running_server  # noqa: E402 - after the skips
from runtimes.dlr.tests import neo, wheels  # noqa: E402
from tests.builders import anomaly_manifest, detector_manifest, write_package, yolo_head  # noqa: E402
from tests.clients import Client, blocks, detected  # noqa: E402
from tests.engines import networks  # noqa: E402
from tests.server.conftest import convert  # noqa: E402

pytestmark = pytest.mark.server

SIDE = 32
# cx, cy, w, h, class, score. Half precision holds the left side, 27.984375, but not 40 times that: 1119.375.
BOX = (31.984375, 16.0, 8.0, 4.0, 0, 0.75)
SCORE, MAP = 0.75, 0.625


def constant(*outputs: np.ndarray[Any, Any]) -> Any:
    """Return a module that gives these, whatever the image, in the image's precision; a bool stays one."""
    torch: Any = importlib.import_module("torch")

    class Constant(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for number, output in enumerate(outputs):
                self.register_buffer(f"output{number}", torch.from_numpy(output))

        def forward(self, image: Any) -> Any:
            nothing = (image * 0).sum()
            values = [getattr(self, f"output{number}") for number in range(len(outputs))]
            given = [value if value.dtype == torch.bool else value.to(image.dtype) + nothing for value in values]
            return tuple(given) if len(given) > 1 else given[0]

    return Constant().eval()


def brightness() -> Any:
    """Return a module of a one-channel image that gives its mean."""
    torch: Any = importlib.import_module("torch")

    class Brightness(torch.nn.Module):
        def forward(self, image: Any) -> Any:
            return image.mean((1, 2, 3))

    return Brightness().eval()


class Repository:
    """Models by name, of whose ensemble only those that are asked for are kept."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "repository"

    def add(self, name: str, manifest: dict[str, Any], files: dict[str, bytes], whole: bool = False) -> None:
        convert(write_package(self.folder / f"{name}.zip", manifest, files), "-o", self.path)
        for other in () if whole else (f"marshal_{name}", name):
            shutil.rmtree(self.path / other)

    def add_exports(
        self, case: str, module: Any, manifest: dict[str, Any], kinds: Sequence[str], whole: bool = False, **export: Any
    ) -> None:
        files = networks.exported(module, SIDE, self.folder, **export)
        for kind in kinds:
            self.add(f"{case}_{kind}", {**manifest, **networks.engine(kind)}, files[kind], whole)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Repository(tmp_path_factory.mktemp("field_cases"))
    grey = anomaly_manifest(input_shape=[1, 1, SIDE, SIDE], interpolation="nearest")
    made.add_exports("b69", brightness(), grey, ("onnx", "script"), channels=1)
    library = wheels.library().read_bytes()
    one_pixel = {**neo.copier((1, 1, 1, 1)).files(library), "libdlr.so": library}
    made.add("b69_dlr", {"model_graph": {"stages": [{"type": "mochi", "input_shape": [1, 1, 1, 1]}]}}, one_pixel)
    head = yolo_head([BOX], 2)
    detector = detector_manifest(class_names=["bolt", "nut"])
    made.add_exports("b71", constant(head), detector, ("onnx", "script", "program"), dtype="float16")
    head = yolo_head([BOX, (8, 8, 4, 4, 1, 0.5), (20, 8, 4, 4, 1, 0.5)], 2)
    head[0, 4:, 1], head[0, 2, 2] = np.nan, np.inf
    made.add_exports("b72", constant(head), detector, ("onnx", "script"), whole=True)
    score, heat = np.array([SCORE], np.float32), np.full((1, 1, 4, 4), MAP, np.float32)
    made.add_exports("b105_short", constant(heat, score), anomaly_manifest(), ("onnx", "program"))
    four = constant(score, np.array([True]), heat, heat > 0)
    made.add_exports("b105_long", four, anomaly_manifest(), ("onnx", "script"))
    with running_server(made.path) as running:
        assert not running.failed
        yield running


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Client]:
    with Client(server) as connected:
        yield connected


@pytest.mark.parametrize("kind", ["onnx", "script", "dlr"])
def test_b69_a_network_of_one_channel_gets_the_luma(client: Client, kind: str) -> None:
    """ITU-R BT.601 of (200, 100, 50), rounded to a whole number: 0.299 R + 0.587 G + 0.114 B."""
    image = np.full((SIDE, SIDE, 3), (200, 100, 50), np.uint8)
    score = client.infer(f"base_b69_{kind}", {"input": image})["output_score"]
    np.testing.assert_allclose(score, [124 / 255], atol=1e-6)


@pytest.mark.parametrize("kind", ["onnx", "script", "program"])
def test_b71_half_precision_ends_before_the_decoder(client: Client, kind: str) -> None:
    """The box on an image 20 times as large as the network; half precision cannot hold its corners."""
    outputs = client.infer(f"base_b71_{kind}", {"input": np.zeros((20 * SIDE, 40 * SIDE, 3), np.uint8)})
    (found,) = json.loads(outputs["anomalies"].tobytes())
    assert found["bounding_box"] == [27.984375 * 40, 14 * 20, 32 * 40, 18 * 20]
    assert found["confidence"] == 0.75


@pytest.mark.parametrize("kind", ["onnx", "script"])
def test_b72_b74_b75_numbers_that_are_none_never_leave_the_server(client: Client, kind: str) -> None:
    """One whole row, one with NaN scores, one with an infinite box: the answer is strict JSON with one detection."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    outputs = client.capture(f"b72_{kind}", np.zeros((SIDE, SIDE, 3), np.uint8))
    json.loads(outputs["output_capture"].tobytes(), parse_constant=refuse)
    json.dumps(blocks(outputs["output_capture"]), allow_nan=False)
    assert detected(outputs) == [[27.984375, 14, 32, 18, 0.75, 0]]


@pytest.mark.parametrize("model", ["b105_short_onnx", "b105_short_program", "b105_long_onnx", "b105_long_script"])
def test_b105_the_score_is_found_in_any_order(client: Client, model: str) -> None:
    """Map and score, or score, label, map and mask: the score wins, 0.75; the map alone would say 0.625."""
    outputs = client.infer(f"base_{model}", {"input": np.zeros((SIDE, SIDE, 3), np.uint8)})
    assert (outputs["output_score"].tolist(), outputs["output"].tolist()) == ([SCORE], [1])
