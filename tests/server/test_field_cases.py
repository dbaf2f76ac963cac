"""What goes wrong for people who deploy models, on the stock server: graphs whose outputs are constants.

One case per kind that shows while serving; tests/cases.md says where the others are. K1, K2, ... are the kinds.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tritonclient.utils import InferenceServerException

from convertor.serve.process import Server, Settings, running_server
from postprocessors.yolo.tests.heads import corner_row, head
from tests import clients
from tests.builders import constant_graph, write_package
from tests.clients import Client, detected
from tests.server.conftest import convert

pytestmark = pytest.mark.server

Array = np.ndarray[Any, Any]
Row = tuple[int, float, list[float]]
SQUARE = np.zeros((640, 640, 3), np.uint8)


def rows(count: int, *found: Sequence[float]) -> Array:
    """float32 [1, count, columns] whose first rows are given, the rest zeros."""
    raw = np.zeros((1, count, len(found[0])), np.float32)
    raw[0, : len(found)] = found
    return raw


def logits(columns: int, queries: Mapping[int, Sequence[tuple[int, float]]], count: int = 10) -> Array:
    """float32 [1, count, columns] of -9 but for {query: [(column, logit), ...]}."""
    raw = np.full((1, count, columns), -9, np.float32)
    for query, peaks in queries.items():
        for column, value in peaks:
            raw[0, query, column] = value
    return raw


BOXES = rows(10, *[[0.5, 0.5, 0.25, 0.5]] * 10)


class Models:
    """Converts constant graphs into one repository; of an ensemble only what is asked for is kept."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.repository = folder, folder / "repository"

    def add(self, name: str, manifest: Mapping[str, Any], files: Mapping[str, bytes], whole: bool = False) -> None:
        convert(write_package(self._folder / f"{name}.zip", manifest, files), "-o", self.repository)
        for other in () if whole else (f"marshal_{name}", name):
            shutil.rmtree(self.repository / other)

    def detector(
        self,
        name: str,
        outputs: Mapping[str, Array],
        layout: str = "yolo",
        network: tuple[int, int] = (640, 640),
        whole: bool = False,
        **detection: Any,
    ) -> None:
        shape = [1, 3, *network]
        manifest = {
            "runtime": "onnx",
            "task": "object_detection",
            "detection": {"layout": layout, **detection},
            "model_graph": {"stages": [{"normalize": layout == "rf_detr"}]},
        }
        self.add(name, manifest, {"model.onnx": constant_graph(outputs, shape)}, whole)


def external_weights(outputs: Mapping[str, Array], folder: Path) -> dict[str, bytes]:
    """A graph whose constant lies in a file beside it."""
    model = onnx.load_from_string(constant_graph(outputs, [1, 3, 640, 640]))
    (node,) = model.graph.node
    weight = node.attribute[0].t
    weight.name = node.output[0]
    model.graph.initializer.append(weight)
    model.graph.node.remove(node)
    settings: dict[str, Any] = {"location": "weights/w.bin", "size_threshold": 0}
    (folder / "weights").mkdir(parents=True)
    onnx.save_model(model, folder / "model.onnx", save_as_external_data=True, **settings)
    return {name: (folder / name).read_bytes() for name in ("model.onnx", "weights/w.bin")}


def suppression_head() -> Array:
    """B46: far from the origin. B47: two classes on one place. B49: no width, a negative width."""
    far = (corner_row(500, 500, 600, 600, 0, 0.9), corner_row(610, 500, 630, 600, 0, 0.8))
    same_place = (corner_row(10, 10, 60, 60, 0, 0.875), corner_row(10, 10, 60, 60, 1, 0.75))
    return head(2, 50, *far, *same_place, (300, 300, 0, 50, 0, 0.95), (300, 300, -10, 20, 0, 0.95))


def add_all(models: Models, folder: Path) -> None:
    models.detector("k1", {"output0": rows(300, [100, 200, 300, 400, 0.9, 0.0])}, num_classes=2)
    models.detector("k1_square", {"output0": head(80, 84, (32, 32, 16, 16, 5, 0.8))}, network=(64, 64), num_classes=80)
    models.detector("k2", {"output0": head(80, 50, (320, 320, 64, 64, 3, 7.28))}, num_classes=80)
    models.detector("k3", {"output0": rows(300, [100, 100, 200, 300, 0.9, 7])}, num_classes=80, whole=True)
    models.detector("k3_counted", counted_outputs(), num_classes=80)
    coefficients = np.pad(head(80, 50, (320, 320, 64, 64, 3, 0.8)), ((0, 0), (0, 32), (0, 0)))
    coefficients[0, 84 + 5, 0] = 1.7
    models.detector("k4", {"protos": np.zeros((1, 32, 8, 8), np.float32), "output0": coefficients}, num_classes=80)
    alike = {"labels": logits(4, {0: [(1, 2.0)]}), "dets": BOXES}
    models.detector("k5", alike, "rf_detr", num_classes=3)
    sparse = logits(91, {0: [(1, 3.0)], 1: [(90, 2.0)], 2: [(0, 1.0)]})
    models.detector("k5_columns", {"dets": BOXES, "labels": sparse}, "rf_detr", num_classes=90)
    two_classes = logits(3, {0: [(0, 2.0), (1, 1.5), (2, -2.0)]})
    models.detector("k6", {"dets": BOXES, "labels": two_classes}, "rf_detr", num_classes=3)
    models.detector("k7", {"output0": suppression_head()}, num_classes=2)
    whole_image = head(1, 50, (320, 192, 640, 384, 0, 0.9))
    models.detector("k8", {"output0": whole_image}, network=(384, 640), num_classes=1, network_input=640)
    odd = head(2, 50, (100, 100, 50, 50, 1, 0.9), (300, 300, 50, 50, 0, 0.5), (400, 300, 50, 50, 0, 0.5))
    odd[0, 4, 0], odd[0, 4:, 1], odd[0, 2, 2] = np.nan, np.nan, np.inf
    models.detector("k10", {"output0": odd}, num_classes=2, whole=True)
    files = external_weights({"output0": rows(300, [100, 100, 200, 300, 0.9, 7])}, folder / "external")
    detector = {"runtime": "onnx", "task": "object_detection", "detection": {"layout": "yolo", "num_classes": 80}}
    models.add("k12", detector, files)
    models.add("k13", {**detector, "device": "gpu"}, files)
    score, heat = np.array([0.75], np.float32), np.full((1, 1, 4, 4), 0.625, np.float32)
    anomaly = {"runtime": "onnx", "model_graph": {"stages": [{"type": "mochi"}]}}
    outputs = {"map": heat, "mask": heat > 0, "label": np.array([True]), "score": score}
    models.add("k17", anomaly, {"model.onnx": constant_graph(outputs)})
    stage = {"type": "mochi", "threshold": 0.702, "normalize": True, "class_normal_ids": [1]}
    classes = {"names": ["anomaly", "normal"], "normal_ids": [1]}
    real = {"runtime": "onnx", "model_graph": {"stages": [stage], "image_level_classes": classes}, "dataset": {}}
    two_neurons = np.array([[0.83, 0.17]], np.float32)
    models.add("k17_neurons", real, {"model.onnx": constant_graph({"output": two_neurons})})


def counted_outputs() -> dict[str, Array]:
    """B27: two rows count, behind them is garbage of 0.99."""
    boxes = rows(100, [100, 100, 200, 300], [300, 300, 400, 400])
    boxes[0, 2:] = [10, 10, 50, 50]
    scores, classes = np.full((1, 100), 0.99, np.float32), np.full((1, 100), 3, np.int32)
    scores[0, :2], classes[0, :2] = (0.9, 0.8), (7, 5)
    names = ("num_dets", "det_boxes", "det_scores", "det_classes")
    return dict(zip(names, (np.array([[2]], np.int32), boxes, scores, classes)))


@pytest.fixture(scope="module")
def served_from(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository where the server reads it."""
    folder = tmp_path_factory.mktemp("field_cases")
    models = Models(folder)
    add_all(models, folder)
    # B122: the packages are gone, and the repository lies elsewhere.
    for package in folder.glob("*.zip"):
        package.unlink()
    return models.repository.rename(folder / "moved")


@pytest.fixture(scope="module")
def server(served_from: Path) -> Iterator[Server]:
    with running_server(served_from, settings=Settings(log=served_from.with_name("server.log"))) as running:
        yield running


@pytest.fixture(params=["http", "grpc"])
def client(request: pytest.FixtureRequest, server: Server) -> Iterator[Client]:
    with Client(server, request.param) as connected:
        yield connected


def found(client: Client, model: str, image: Array = SQUARE) -> list[Row]:
    """(class, score, box) of what base finds, as it is to be read from the wire: strict JSON."""
    answer = client.infer(f"base_{model}", {"input": image})["anomalies"].tobytes()
    records = json.loads(answer, parse_constant=pytest.fail)
    return [
        (record["class"], round(record["confidence"], 4), [round(side, 3) for side in record["bounding_box"]])
        for record in records
        if not record.get("no_objects")
    ]


WIDE = np.zeros((720, 1280, 3), np.uint8)
HALF = [240.0, 160.0, 400.0, 480.0]


@pytest.mark.parametrize(
    ("model", "image", "expected"),
    [
        pytest.param("k1", SQUARE, [(0, 0.9, [100.0, 200.0, 300.0, 400.0])], id="B05-two-classes-or-six-columns"),
        pytest.param("k1_square", SQUARE[:64, :64], [(5, 0.8, [24.0, 24.0, 40.0, 40.0])], id="B02-a-square-head"),
        pytest.param("k3", WIDE, [(7, 0.9, [200.0, 112.5, 400.0, 337.5])], id="B19-end-to-end"),
        pytest.param(
            "k3_counted",
            SQUARE,
            [(7, 0.9, [100.0, 100.0, 200.0, 300.0]), (5, 0.8, [300.0, 300.0, 400.0, 400.0])],
            id="B27-four-outputs",
        ),
        pytest.param("k4", SQUARE, [(3, 0.8, [288.0, 288.0, 352.0, 352.0])], id="B31-mask-coefficients"),
        pytest.param("k5", SQUARE, [(1, 0.8808, HALF)], id="B36-logits-as-wide-as-boxes"),
        pytest.param(
            "k5_columns",
            SQUARE,
            [(1, 0.9526, HALF), (90, 0.8808, HALF), (0, 0.7311, HALF)],
            id="B37-a-column-is-a-class",
        ),
        pytest.param("k6", SQUARE, [(0, 0.8808, HALF), (1, 0.8176, HALF)], id="B42-one-query-two-classes"),
        pytest.param(
            "k7",
            SQUARE,
            [
                (0, 0.9, [500.0, 500.0, 600.0, 600.0]),
                (0, 0.875, [10.0, 10.0, 60.0, 60.0]),
                (0, 0.8, [610.0, 500.0, 630.0, 600.0]),
                (1, 0.75, [10.0, 10.0, 60.0, 60.0]),
            ],
            id="B46-B47-B49-suppression",
        ),
        pytest.param("k8", WIDE, [(0, 0.9, [0.0, 0.0, 1280.0, 720.0])], id="B55-a-network-that-is-not-square"),
        pytest.param("k10", SQUARE, [(1, 0.9, [75.0, 75.0, 125.0, 125.0])], id="B72-B74-B75-no-numbers"),
        pytest.param("k12", SQUARE, [(7, 0.9, [100.0, 100.0, 200.0, 300.0])], id="B86-weights-in-a-file-beside"),
    ],
)
def test_what_base_finds(client: Client, model: str, image: Array, expected: list[Row]) -> None:
    assert found(client, model, image) == expected


@pytest.mark.parametrize(
    ("model", "image", "expected"),
    [
        pytest.param("k3", WIDE, [200, 112.5, 400, 337.5, 0.9, 7], id="B19"),
        pytest.param("k10", SQUARE, [75, 75, 125, 125, 0.9, 1], id="B72"),
    ],
)
def test_what_the_ensemble_answers(client: Client, model: str, image: Array, expected: list[float]) -> None:
    (row,) = detected(client.capture(model, image))
    assert row == pytest.approx(expected, abs=1e-5)


def test_b13_scores_that_are_logits_are_that_requests_error(client: Client) -> None:
    with pytest.raises(InferenceServerException, match=r"class scores reach 7\.28, expected 0\.\.1"):
        found(client, "k2")
    assert found(client, "k3", SQUARE) == [(7, 0.9, [100.0, 100.0, 200.0, 300.0])]


@pytest.mark.parametrize("channels", [1, 4])
def test_b65_b66_grey_and_alpha_are_images(client: Client, channels: int) -> None:
    image = np.zeros((384, 640, channels), np.uint8)
    assert found(client, "k8", image) == [(0, 0.9, [0.0, 0.0, 640.0, 384.0])]


def test_b68_sixteen_bits_are_refused_by_their_type(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(clients.DTYPES, "uint16", "UINT16")
    with pytest.raises(InferenceServerException, match="UINT8"):
        found(client, "k8", np.full((4, 4, 3), 51559, np.uint16))


def test_b79_every_image_is_scaled_by_its_own_size(server: Server) -> None:
    """K11: requests that run at the same time, each with an image of its own size."""
    sizes = [(24 * side, 32 * side) for side in range(1, 17)]

    def ask(size: tuple[int, int]) -> list[Row]:
        with Client(server) as client:
            return found(client, "k8", np.zeros((*size, 3), np.uint8))

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, sizes))
    assert answers == [[(0, 0.9, [0.0, 0.0, float(width), float(height)])] for height, width in sizes]


def test_b117_a_large_image_is_answered(client: Client) -> None:
    """36 MB; what base says of the place of a detector's mask stays one pixel."""
    assert found(client, "k8", np.zeros((3000, 4000, 3), np.uint8)) == [(0, 0.9, [0.0, 0.0, 4000.0, 3000.0])]


def test_b122_a_repository_may_be_moved(served_from: Path, server: Server) -> None:
    assert not any(path.is_symlink() for path in served_from.rglob("*"))
    assert "base_k12" in server.ready


def test_b90_a_gpu_that_is_asked_for_and_not_there_is_a_load_error(server: Server) -> None:
    assert list(server.failed) == ["base_k13"]
    assert "device gpu" in server.failed["base_k13"]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        pytest.param("k17", (1, 0.75, 0.75), id="B105-score-among-map-mask-label"),
        pytest.param("k17_neurons", (1, 0.83, 0.83), id="B104-index-0-is-the-anomaly"),
    ],
)
def test_anomaly_verdicts(client: Client, model: str, expected: tuple[int, float, float]) -> None:
    outputs = client.infer(f"base_{model}", {"input": np.zeros((32, 32, 3), np.uint8)})
    names = ("output", "output_confidence", "output_score")
    assert [float(outputs[name][0]) for name in names] == pytest.approx(expected, abs=1e-6)
