"""The story of a fleet: one name on a live server moves from DLR to ONNX Runtime and back, and no client notices."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from tests.engines import needs

needs.need("pytriton", "onnxruntime", "torch", "dlr")

from convertor.serve.process import Server, running_server  # noqa: E402 - after the skips
from tests.builders import write_package  # noqa: E402
from tests.clients import Client  # noqa: E402
from tests.engines import images, networks  # noqa: E402
from tests.server.conftest import convert  # noqa: E402

pytestmark = pytest.mark.server

NAME = "line-4"
HEIGHT, WIDTH = 48, 64
POLL = ("--model-control-mode=poll", "--repository-poll-secs=1")
CLOSE = 1e-4


def pictures() -> list[np.ndarray]:
    """Return a normal and an anomalous image."""
    normal = images.noise(HEIGHT, WIDTH) // 2 + 60
    anomalous = normal.copy()
    anomalous[10:25, 8:30] = 255
    return [normal, anomalous]


class CaptureClient(threading.Thread):
    """An edge pipeline's client: asks without a pause, by one protocol, and keeps what it got for every image."""

    def __init__(self, server: Server, protocol: str, stop: threading.Event) -> None:
        super().__init__()
        self.server, self.protocol, self.stop = server, protocol, stop
        self.answers: list[tuple[int, dict[str, np.ndarray]]] = []
        self.errors: list[str] = []

    def run(self) -> None:
        asked = pictures()
        with Client(self.server, self.protocol) as client:
            while not self.stop.is_set():
                number = len(self.answers) % len(asked)
                metadata = {
                    "capture_id": f"camera-{number}",
                    "sagemaker_edge_core_capture_data_disk_path": "/data/line-4",
                    "sagemaker_edge_core_device_fleet_name": "fleet-1",
                }
                try:
                    self.answers.append((number, client.capture(NAME, asked[number], metadata)))
                # Whatever it is, a client has seen it.
                except Exception as error:
                    self.errors.append(str(error))

    def version(self) -> str:
        """Return the version that the last answer names."""
        return version_of(self.answers[-1][1]) if self.answers else ""


def version_of(outputs: Mapping[str, np.ndarray]) -> str:
    return str(json.loads(outputs["output_capture"].tobytes())["eventMetadata"]["modelVersion"])


def timeless(outputs: Mapping[str, np.ndarray]) -> str:
    """Return the capture JSON of an answer without its times."""
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "TIME", outputs["output_capture"].tobytes().decode())


def story(outputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return what a client reads of an answer, without the version and the times, the JSON blocks parsed."""
    document = json.loads(timeless(outputs))
    del document["eventMetadata"]["modelVersion"]
    for entry in document["deviceFleetAuxiliaryOutputs"]:
        if "data" in entry:
            entry["data"] = json.loads(base64.b64decode(entry["data"]))
    return {
        "document": document,
        "label": int(outputs["output_anomalous"][0]),
        "confidence": float(outputs["output_confidence"][0]),
        "mask": cv2.imdecode(outputs["output_mask"], cv2.IMREAD_COLOR).tobytes(),
        "overlay": outputs["output_overlay"].tobytes(),
    }


def differences(found: Any, expected: Any, where: str = "") -> list[str]:
    """Return the places where two answers differ: numbers by more than 1e-4, all else at all."""
    if isinstance(found, dict) and isinstance(expected, dict) and found.keys() == expected.keys():
        return [line for key in found for line in differences(found[key], expected[key], f"{where}/{key}")]
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        pairs = enumerate(zip(found, expected))
        return [line for index, pair in pairs for line in differences(*pair, f"{where}/{index}")]
    is_close = isinstance(found, float) and isinstance(expected, float) and abs(found - expected) <= CLOSE
    return [] if is_close or found == expected else [f"{where}: {expected!r} -> {found!r}"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    needs.need_compiler()
    folder = tmp_path_factory.mktemp("files")
    onnx = networks.exported(networks.anomaly(), networks.ANOMALY_SIDE, folder)["onnx"]
    return {"dlr": networks.compiled(folder), "onnx": onnx}


SIZED = {"dataset": {"image_width": WIDTH, "image_height": HEIGHT}}


@pytest.mark.parametrize(
    "said",
    [
        pytest.param({}, id="images-of-any-size"),
        # DLR's own input dims are then the dataset's; ONNX Runtime's are wider, and stay so on the way back.
        pytest.param(SIZED, id="images-of-the-dataset-s-size"),
    ],
)
def test_dlr_then_onnx_then_dlr_again_and_no_client_notices(
    files: dict[str, dict[str, bytes]], tmp_path: Path, said: dict[str, Any]
) -> None:
    repository, stop = tmp_path / "repository", threading.Event()

    def publish(kind: str) -> None:
        package = write_package(tmp_path / f"{kind}.zip", networks.anomaly_package(kind, **said), files[kind])
        convert(package, "-o", repository, "--name", NAME, "--version", "next")

    publish("dlr")
    with running_server(repository, *POLL) as server:
        clients = [CaptureClient(server, protocol, stop) for protocol in ("grpc", "http")]
        for client in clients:
            client.start()
        try:
            wait_for("1", clients)
            publish("onnx")
            wait_for("2", clients)
            publish("dlr")
            wait_for("3", clients)
        finally:
            stop.set()
            for client in clients:
                client.join()
        log = server.log_path.read_text("utf-8")
    # Triton may load a version again when a newer one comes.
    loaded = set(re.findall(rf"{NAME} version (\d): engine (\w+)", log))
    assert loaded == {("1", "dlr"), ("2", "onnxruntime"), ("3", "dlr")}
    assert [client.errors for client in clients] == [[], []]
    check_answers(clients)


def wait_for(version: str, clients: list[CaptureClient]) -> None:
    deadline = time.monotonic() + 90
    while not all(client.version() == version for client in clients):
        assert time.monotonic() < deadline, [client.errors[:3] or client.version() for client in clients]
        time.sleep(0.1)


def check_answers(clients: list[CaptureClient]) -> None:
    """Every answer, whichever engine gave it, is the first one of its image."""
    first = [story(next(outputs for at, outputs in clients[0].answers if at == number)) for number in (0, 1)]
    assert [given["label"] for given in first] == [0, 1]
    assert "anomaly-mask-ref-detected" in first[1]["document"]["deviceGroundTruthData"][0]
    for client in clients:
        assert {version_of(outputs) for _, outputs in client.answers} == {"1", "2", "3"}
        # Thousands of answers, of which few differ at all.
        distinct: dict[tuple[Any, ...], tuple[int, Mapping[str, np.ndarray]]] = {}
        for number, outputs in client.answers:
            others = (value.tobytes() for name, value in outputs.items() if name != "output_capture")
            distinct[(number, timeless(outputs), *others)] = number, outputs
        for number, outputs in distinct.values():
            assert differences(story(outputs), first[number]) == []
