"""The tensors profile on the stock server: subsets, batches, both protocols, raw and encoded, faulty requests."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, combinations
from typing import Any

import cv2
import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from convertor.serve.process import Server, running_server
from tests.builders import anomaly_manifest, constant_graph, detector_manifest, write_package, yolo_head
from tests.server.conftest import ROOT, convert
from tests.server.tensors_client import TensorsClient as Client
from training.evaluate import FIRST_SEED, draw_parts

pytestmark = pytest.mark.server

SIZES = ((240, 320), (320, 240), (320, 320), (200, 500), (64, 48), (480, 640))
DETECTION = ("num_dets", "det_boxes", "det_scores", "det_classes", "detections", "overlay")
OUTPUTS = {
    "parts_yolo": DETECTION,
    "cut_outs": (*DETECTION, "det_masks"),
    "surface": ("anomaly_score", "is_anomalous", "anomaly_map", "overlay"),
    "kind": ("class_scores", "class_ids"),
}


def cut_outs() -> tuple[dict[str, Any], bytes]:
    """Return a segmenter that finds the same two objects in every image."""
    head = yolo_head([(8, 8, 10, 10, 1, 0.9), (22, 20, 12, 16, 0, 0.6)], 2)
    head = np.concatenate([head, np.ones((1, 4, head.shape[2]), np.float32)], axis=1)
    manifest = detector_manifest(class_names=["dog", "cat"])
    manifest["task"] = "instance_segmentation"
    return manifest, constant_graph({"output0": head, "output1": np.ones((1, 4, 8, 8), np.float32)})


@pytest.fixture(scope="module")
def tensors_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run the stock server on a trained detector and, of other tasks, graphs that give the same for every image."""
    folder, target = tmp_path_factory.mktemp("packages"), tmp_path_factory.mktemp("served") / "models"
    heat = np.linspace(0, 0.75, 64, dtype=np.float32).reshape(1, 1, 8, 8)
    classifier = {"runtime": "onnx", "task": "classification", "model_graph": {"stages": [{"type": "classification"}]}}
    scores = np.array([[0.25, 0.625, 0.125]], np.float32)
    packages = {
        "cut_outs": cut_outs(),
        "surface": (anomaly_manifest(), constant_graph({"map": heat})),
        "kind": (classifier, constant_graph({"scores": scores})),
    }
    written = [
        write_package(folder / f"{name}.zip", manifest, {"model.onnx": graph})
        for name, (manifest, graph) in packages.items()
    ]
    convert(ROOT / "tests/packages/parts_yolo", *written, "-o", target, "--profile", "tensors")
    with running_server(target) as running:
        assert not running.failed
        yield running


@pytest.fixture(params=["http", "grpc"])
def caller(request: pytest.FixtureRequest, tensors_server: Server) -> Iterator[Client]:
    """Return a client of each protocol in turn."""
    with Client(tensors_server, request.param) as connected:
        yield connected


def scene(index: int, size: tuple[int, int] = SIZES[0]) -> np.ndarray:
    """Return a picture of parts, uint8 [1, H, W, 3]."""
    return draw_parts(FIRST_SEED + index, size, "evaluation").image[np.newaxis]


def png(image: np.ndarray) -> np.ndarray:
    """Return a file that holds exactly the image's pixels, uint8 [1, n]."""
    return cv2.imencode(".png", cv2.cvtColor(image[0], cv2.COLOR_RGB2BGR))[1].reshape(1, -1)


def raw(client: Client, image: np.ndarray, model: str = "parts_yolo", **options: Any) -> dict[str, np.ndarray]:
    return client.ask(model, {"input": image}, **options)


def encoded(client: Client, image: np.ndarray, model: str = "parts_yolo", **options: Any) -> dict[str, np.ndarray]:
    return client.ask(f"{model}_encoded", {"input_encoded": png(image)}, **options)


def assert_same(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    """Insist on equal answers: boxes to a hundredth of a pixel, for an engine sums in another order in a batch."""
    assert found["num_dets"].tolist() == expected["num_dets"].tolist()
    assert found["det_classes"].tolist() == expected["det_classes"].tolist()
    np.testing.assert_allclose(found["det_boxes"], expected["det_boxes"], atol=1e-2)
    np.testing.assert_allclose(found["det_scores"], expected["det_scores"], atol=1e-4)


@pytest.mark.parametrize("model", OUTPUTS)
def test_every_subset_of_outputs_is_answered(caller: Client, model: str) -> None:
    image = scene(0)
    every = raw(caller, image, model)
    assert set(every) == set(OUTPUTS[model])
    names = OUTPUTS[model]
    for subset in chain.from_iterable(combinations(names, count) for count in range(1, len(names) + 1)):
        call = encoded if len(subset) % 2 else raw
        found = call(caller, image, model, outputs=subset)
        assert set(found) == set(subset)
        for name, value in found.items():
            assert (value.dtype, value.shape) == (every[name].dtype, every[name].shape)
            assert np.array_equal(value, every[name])


def test_detections_are_in_every_form(caller: Client) -> None:
    found = raw(caller, scene(0))
    count = found["num_dets"].item()
    assert count > 0
    assert {name: (str(value.dtype), value.shape) for name, value in found.items() if name != "overlay"} == {
        "num_dets": ("int32", (1, 1)),
        "det_boxes": ("float32", (1, 300, 4)),
        "det_scores": ("float32", (1, 300)),
        "det_classes": ("int32", (1, 300)),
        "detections": ("uint8", found["detections"].shape),
    }
    records = json.loads(found["detections"].tobytes())
    assert [record["bounding_box"] for record in records] == found["det_boxes"][0, :count].tolist()
    assert not found["det_boxes"][0, count:].any()
    assert cv2.imdecode(found["overlay"][0], cv2.IMREAD_COLOR).shape == (*SIZES[0], 3)


def test_nothing_found(caller: Client) -> None:
    found = raw(caller, np.full((1, 48, 64, 3), 114, np.uint8))
    assert found["num_dets"].item() == 0
    assert found["detections"].tobytes() == b"[]"
    assert not found["det_boxes"].any()
    assert found["overlay"].size


@pytest.mark.parametrize("count", range(1, 9))
def test_a_request_of_several_images(caller: Client, count: int) -> None:
    images = np.concatenate([scene(index) for index in range(count)])
    together = raw(caller, images)
    assert len(together["num_dets"]) == count
    for index in (0, count - 1):
        alone = raw(caller, images[index : index + 1])
        assert_same({name: value[index : index + 1] for name, value in together.items()}, alone)
        assert len(json.loads(together["detections"][index].tobytes())) == alone["num_dets"].item()
        assert cv2.imdecode(together["overlay"][index], cv2.IMREAD_COLOR).shape == (*SIZES[0], 3)


def test_images_of_all_sizes_raw_and_encoded_at_once(tensors_server: Server) -> None:
    pictures = [scene(index, size) for index, size in enumerate(SIZES)]
    with Client(tensors_server) as client:
        expected = [raw(client, picture) for picture in pictures]

    def caller(number: int) -> None:
        with Client(tensors_server) as client:
            for step in range(12):
                index = (number + step) % len(pictures)
                call = encoded if (number + step) % 2 else raw
                wanted = DETECTION if step % 4 == 0 else DETECTION[:5]
                found = call(client, pictures[index], outputs=wanted)
                assert_same(found, expected[index])

    before = statistics(tensors_server, "base_parts_yolo")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(caller, range(8)))
    after = statistics(tensors_server, "base_parts_yolo")
    images, calls = after[0] - before[0], after[1] - before[1]
    assert images == 8 * 12
    assert calls < images


def statistics(server: Server, model: str) -> tuple[int, int]:
    """Return how many images and how many calls of `execute` a model has had."""
    with Client(server) as client:
        (found,) = client.raw.get_inference_statistics(model).model_stats
    return found.inference_count, found.execution_count


FILE, RAW = "parts_yolo_encoded", "parts_yolo"
BAD = [
    pytest.param(FILE, png(scene(0))[:, :900], {}, "input_encoded: a PNG file", id="cut off"),
    pytest.param(FILE, np.zeros((1, 100), np.uint8), {}, "input_encoded: expected the bytes of", id="zeros"),
    pytest.param(FILE, np.full((1, 100), 7, np.uint8), {}, "input_encoded: expected the bytes of", id="junk"),
    pytest.param(RAW, np.zeros((1, 0, 0, 3), np.uint8), {}, "", id="0 x 0"),
    pytest.param(RAW, np.zeros((1, 8, 8, 4), np.uint8), {}, "", id="four channels"),
    pytest.param(RAW, scene(0).astype(np.float32), {}, "UINT8", id="floats"),
    pytest.param(RAW, scene(0), {"score_threshold": "-1"}, "score_threshold: expected a number", id="negative"),
    pytest.param(RAW, scene(0), {"iou_threshold": "nan"}, "iou_threshold: expected a number", id="nan"),
    pytest.param(RAW, scene(0), {"max_det": 301}, "max_det: expected a whole number", id="more than there are"),
    pytest.param(RAW, scene(0), {"classes": '["spoon"]'}, "classes: expected one of the model's 4", id="no class"),
]


@pytest.mark.parametrize(("model", "value", "parameters", "said"), BAD)
def test_a_bad_request_is_its_own_error(
    caller: Client, model: str, value: np.ndarray, parameters: dict[str, Any], said: str
) -> None:
    name = "input_encoded" if model == FILE else "input"
    with pytest.raises(InferenceServerException) as caught:
        caller.ask(model, {name: value}, parameters=parameters)
    message = str(caught.value)
    assert said in message
    assert "Traceback" not in message
    assert "\n" not in message.strip()
    assert raw(caller, scene(0))["num_dets"].item() > 0


def test_bad_requests_hurt_no_neighbour(tensors_server: Server) -> None:
    with Client(tensors_server) as client:
        expected = raw(client, scene(1))

    def call(number: int) -> None:
        with Client(tensors_server) as client:
            for step in range(6):
                if number % 2:
                    model, value, parameters, _ = BAD[(number + step) % len(BAD)].values
                    name = "input_encoded" if model == FILE else "input"
                    with pytest.raises(InferenceServerException):
                        client.ask(model, {name: value}, parameters=parameters)
                else:
                    assert_same(raw(client, scene(1)), expected)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, range(8)))
    with Client(tensors_server) as client:
        assert client.raw.is_model_ready("parts_yolo")
        assert client.raw.is_model_ready("parts_yolo_encoded")


def test_parameters_reach_base_through_both_ensembles(caller: Client) -> None:
    image = scene(0)
    every = raw(caller, image)
    records = json.loads(every["detections"].tobytes())
    assert len(records) > 1
    for call in (raw, encoded):
        assert call(caller, image, parameters={"max_det": 1})["num_dets"].item() == 1
        assert call(caller, image, parameters={"score_threshold": "1"})["num_dets"].item() == 0
        label, number = records[0]["class_label"], records[0]["class"]
        for asked in (label, json.dumps([number])):
            found = json.loads(call(caller, image, parameters={"classes": asked})["detections"].tobytes())
            assert found == [record for record in records if record["class"] == number]
    assert_same(raw(caller, image), every)


def test_masks_false_leaves_them_out(caller: Client) -> None:
    found = raw(caller, scene(0), "cut_outs")
    masks = json.loads(found["det_masks"].tobytes())
    assert [mask["size"] for mask in masks] == [list(SIZES[0])] * 2
    without = raw(caller, scene(0), "cut_outs", parameters={"masks": False})
    assert without["det_masks"].tobytes() == b"[]"
    assert_same(without, found)


def test_other_tasks(caller: Client) -> None:
    verdict = raw(caller, scene(0), "surface")
    assert (verdict["anomaly_score"].item(), verdict["is_anomalous"].item()) == (0.75, 1)
    assert verdict["anomaly_map"].shape == (1, 8, 8)
    assert cv2.imdecode(verdict["overlay"][0], cv2.IMREAD_COLOR).shape == (*SIZES[0], 3)
    kind = encoded(caller, scene(0), "kind")
    assert kind["class_ids"].tolist() == [[1, 0, 2]]
    assert kind["class_scores"].tolist() == [[0.625, 0.25, 0.125]]


def test_metrics(tensors_server: Server) -> None:
    with Client(tensors_server) as client:
        encoded(client, scene(0))
        with pytest.raises(InferenceServerException):
            raw(client, scene(0), parameters={"max_det": 0})
    with urllib.request.urlopen(tensors_server.metrics_url) as response:
        lines = response.read().decode().splitlines()
    shown = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line.startswith("convertor_")}
    for model, stages in {"base": ("preprocess", "engine", "decode"), "marshal": ("overlay",)}.items():
        for stage in stages:
            labels = f'{{model="{model}_parts_yolo",stage="{stage}",version="1"}}'
            assert shown[f"convertor_stage_calls_total{labels}"] > 0
            assert shown[f"convertor_stage_seconds_total{labels}"] > 0
    assert shown['convertor_images_total{model="base_parts_yolo",version="1"}'] > 0
    assert shown['convertor_detections_total{model="base_parts_yolo",version="1"}'] > 0
    failures = 'convertor_request_failures_total{model="base_parts_yolo",reason="parameter",version="1"}'
    assert shown[failures] > 0
