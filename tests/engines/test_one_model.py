"""One network, every engine that runs on a CPU, one stock server: the same answers.

Executed here: ONNX Runtime, TorchScript and torch.export, and for the anomaly model DLR's real library. TensorRT is
not among them: it executes on GPUs only; what of it runs without one is in runtimes/tensorrt/tests.

Measured with torch 2.13.0, onnxruntime 1.32.0 and libdlr 1.6.0, the largest differences of engines: boxes 1.6e-5 px
of the network and 1.9e-4 px of a page of 1754 px, their confidences 4.2e-7, anomaly scores 6e-8, masks none.
"""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np
import pytest

from tests.engines import needs

needs.need("pytriton", "onnxruntime", "torch", "dlr")

import torch  # noqa: E402 - after the skips

from convertor.serve.process import Server, running_server  # noqa: E402
from runtimes.dlr.tests import neo  # noqa: E402
from tests.builders import write_package  # noqa: E402
from tests.clients import Client, detected  # noqa: E402
from tests.engines import images, networks  # noqa: E402
from tests.server.conftest import convert  # noqa: E402

pytestmark = pytest.mark.server

IMAGES = images.various()
# The networks' own sizes: no resizing lies between the pixels and the network.
DETECTOR_SIZED, ANOMALY_SIZED = images.noise(networks.SIDE, networks.SIDE), images.noise(32, 32)
DETECTORS = ("onnx", "script", "program")
ANOMALY_MODELS = (*DETECTORS, "dlr")
SCORES = 1e-4
# Of the network; a box of an image of 1754 pixels is 18 times as large, and float32 resolves 1e-4 there.
PIXELS, SOURCE_PIXELS = 1e-4, 1e-3
EVERY_IMAGE = pytest.mark.parametrize("name", [*IMAGES, "sized"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("one_model")
    packages = []
    for kind, files in networks.exported(networks.detector(), networks.SIDE, folder).items():
        packages.append(write_package(folder / f"detector_{kind}.zip", networks.detector_package(kind), files))
    files = networks.exported(networks.anomaly(), networks.ANOMALY_SIDE, folder)
    if neo.compiler() is not None:
        files["dlr"] = networks.compiled(folder)
    for kind, members in files.items():
        packages.append(write_package(folder / f"anomaly_{kind}.zip", networks.anomaly_package(kind), members))
    convert(*packages, "-o", folder / "repository")
    with running_server(folder / "repository") as running:
        assert not running.failed
        yield running


@pytest.fixture(params=["http", "grpc"])
def client(request: pytest.FixtureRequest, server: Server) -> Iterator[Client]:
    with Client(server, request.param) as connected:
        yield connected


def anomaly_answer(client: Client, kind: str, image: np.ndarray) -> tuple[int, float, float, np.ndarray]:
    """Return (label, confidence, score, mask as RGB)."""
    if kind == "dlr":
        needs.need_compiler()
    outputs = client.capture(f"anomaly_{kind}", image)
    score = client.infer(f"base_anomaly_{kind}", {"input": image})["output_score"]
    mask = cv2.imdecode(outputs["output_mask"], cv2.IMREAD_COLOR) if outputs["output_mask"].size else np.zeros(0)
    return int(outputs["output_anomalous"][0]), float(outputs["output_confidence"][0]), float(score[0]), mask


def planes(image: np.ndarray) -> np.ndarray:
    return image.transpose(2, 0, 1)[None].astype(np.float32) / np.float32(255)


@EVERY_IMAGE
@pytest.mark.parametrize("kind", DETECTORS[1:])
def test_the_same_detections(client: Client, kind: str, name: str) -> None:
    image = IMAGES.get(name, DETECTOR_SIZED)
    found, expected = (np.array(detected(client.capture(f"detector_{k}", image))) for k in (kind, "onnx"))
    assert len(expected) >= 3
    # Paper of one colour gives equal scores, whose order is nobody's promise: each row's nearest, and none twice.
    nearest = abs(found[:, None] - expected[None]).max(2).argmin(1)
    assert sorted(nearest) == list(range(len(expected)))
    np.testing.assert_array_equal(found[:, 5], expected[nearest, 5])
    pixels = SOURCE_PIXELS if name in IMAGES else PIXELS
    np.testing.assert_allclose(found[:, :4], expected[nearest, :4], atol=pixels, rtol=0)
    np.testing.assert_allclose(found[:, 4], expected[nearest, 4], atol=SCORES, rtol=0)


@pytest.mark.parametrize("kind", DETECTORS)
def test_the_detections_are_rows_of_the_network_s_head_and_none_is_left(client: Client, kind: str) -> None:
    """Against the module itself, outside any server: also an error that all engines share is seen."""
    with torch.no_grad():
        (head,) = networks.detector()(torch.from_numpy(planes(DETECTOR_SIZED))).numpy()
    centres, sides, scores = head[:2].T, head[2:4].T, head[4:].T
    corners = np.concatenate([centres - sides / 2, centres + sides / 2], 1).clip(0, networks.SIDE)
    rows = np.array(detected(client.capture(f"detector_{kind}", DETECTOR_SIZED)))
    assert set(rows[:, 5]) == {0, 1}
    assert 5 <= len(rows) < (scores >= networks.SCORE_THRESHOLD).any(1).sum()
    for *box, score, class_id in rows:
        (anchor,) = np.flatnonzero(abs(scores[:, int(class_id)] - score) < SCORES / 100)
        np.testing.assert_allclose(box, corners[anchor], atol=PIXELS, rtol=0)
    assert rows[0, 4] == pytest.approx(scores.max(), abs=SCORES)


@EVERY_IMAGE
@pytest.mark.parametrize("kind", ANOMALY_MODELS[1:])
def test_the_same_label_score_and_mask(client: Client, kind: str, name: str) -> None:
    image = IMAGES.get(name, ANOMALY_SIZED)
    label, confidence, score, mask = anomaly_answer(client, kind, image)
    expected = anomaly_answer(client, "onnx", image)
    assert label == expected[0]
    np.testing.assert_allclose([confidence, score], expected[1:3], atol=SCORES, rtol=0)
    np.testing.assert_array_equal(mask, expected[3])


@pytest.mark.parametrize(("brightness", "label"), [(40, 0), (255, 1)], ids=["normal", "anomalous"])
@pytest.mark.parametrize("kind", ANOMALY_MODELS)
def test_the_anomaly_is_what_numpy_says(client: Client, kind: str, brightness: int, label: int) -> None:
    """A patch on noise, at the network's own size; background is white in the mask."""
    image = ANOMALY_SIZED // 2 + 60
    image[8:20, 4:16] = np.maximum(image[8:20, 4:16], brightness)
    ((plane,),), ((expected,),) = neo.distance_reference(planes(image))
    assert abs(plane - networks.ANOMALY_THRESHOLD).min() > SCORES, "a pixel on the threshold may fall to either side"
    found, confidence, score, mask = anomaly_answer(client, kind, image)
    assert found == label
    assert [confidence, score] == pytest.approx([expected if label else 1 - expected, expected], abs=SCORES)
    np.testing.assert_array_equal((mask != 255).any(2), plane >= networks.ANOMALY_THRESHOLD)
