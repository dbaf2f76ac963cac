"""What one request may do wrong, and what it must never do to the next one."""

from __future__ import annotations

import json
import urllib.request

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from convertor.serve.process import Server
from tests.clients import Client, as_bytes

pytestmark = pytest.mark.server

GOOD = np.zeros((48, 64, 3), np.uint8)
BAD = [
    pytest.param({"input": np.zeros((48, 64), np.uint8)}, "input", id="two axes"),
    pytest.param({"input": np.zeros((48, 64, 2), np.uint8)}, "C 1, 3 or 4", id="two channels"),
    pytest.param({"input": np.zeros((0, 64, 3), np.uint8)}, "", id="no rows"),
    pytest.param({"input": np.zeros((48, 64, 3), np.float32)}, "UINT8", id="float image"),
    pytest.param({"METADATA": as_bytes(b"{")}, "METADATA", id="metadata is not JSON"),
    pytest.param({"METADATA": as_bytes([1])}, "METADATA", id="metadata is a list"),
    pytest.param({"METADATA": as_bytes({"capture_id": 7})}, "capture_id", id="capture id is a number"),
    pytest.param({"METADATA": as_bytes({"capture_id": "x" * 2_000_000})}, "METADATA", id="huge metadata"),
]


@pytest.mark.parametrize(("inputs", "said"), BAD)
def test_a_bad_request_is_its_own_error_and_the_next_one_succeeds(
    client: Client, inputs: dict[str, np.ndarray], said: str
) -> None:
    good = {"input": GOOD, "METADATA": as_bytes({})}
    with pytest.raises(InferenceServerException) as caught:
        client.infer("detection_found", {**good, **inputs})
    message = str(caught.value)
    assert said in message
    assert "Traceback" not in message
    assert "\n" not in message.strip()
    assert client.infer("detection_found", good)["output_anomalous"].tolist() == [1]


def test_a_bad_image_is_the_clients_fault_not_the_servers(server: Server) -> None:
    with Client(server, "grpc") as client, pytest.raises(InferenceServerException) as caught:
        client.capture("detection_found", np.zeros((48, 64, 2), np.uint8))
    assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_grey_rgb_and_rgba_images_are_answered(client: Client, channels: int) -> None:
    image = np.full((48, 64, channels), 200, np.uint8)
    outputs = client.capture("detection_found", image)
    assert outputs["output_anomalous"].tolist() == [1]
    assert outputs["output_overlay"].size
    assert client.capture("anomaly_with_mask", image)["output_mask"].size


def test_nothing_found_is_the_sentinel_on_the_wire_and_never_leaves_marshal(server: Server) -> None:
    with Client(server) as client:
        base = client.infer("base_detection_none", {"input": GOOD})
        capture = client.capture("detection_none", GOOD)["output_capture"].tobytes()
    assert json.loads(base["anomalies"].tobytes())[0]["no_objects"] is True
    assert b"no_objects" not in capture


def test_metrics_show_the_device_that_runs(server: Server) -> None:
    with urllib.request.urlopen(server.metrics_url, timeout=30) as answer:
        series = [line for line in answer.read().decode().splitlines() if line.startswith("convertor_model_device{")]
    found = [line for line in series if 'model="base_detection_found",version="3",wanted="auto"' in line]
    assert len(found) == 1
    assert found[0].endswith(" 1")
