"""The capture profile on the stock server, tensor by tensor, against the golden files."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import cv2
import numpy as np
import pytest

from tests.clients import Client, as_bytes
from tests.server.conftest import GOLDENS

pytestmark = pytest.mark.server

NAMES = ["anomaly-with-mask", "anomaly-without-mask", "detection-found", "detection-none"]
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
PALETTE = np.array(GOLDENS["palette"]["palette"], np.uint8)


def the_image() -> np.ndarray[Any, Any]:
    image = np.zeros((320, 240, 3), np.uint8)
    image[:, :, 0] = np.arange(240)
    return image


def parsed(capture: np.ndarray[Any, Any], golden: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the capture JSON in the golden file's terms: its clock, its model name, its base64 blocks parsed."""
    assert capture.dtype == np.uint8
    text = capture.tobytes().decode("utf-8")
    value: dict[str, Any] = json.loads(TIME.sub(golden["clock_utc"], text))
    assert value["eventMetadata"]["modelName"] == name
    value["eventMetadata"]["modelName"] = golden["model"]
    return value


def opened(capture: dict[str, Any]) -> dict[str, Any]:
    """Replace every base64 block by what is in it."""
    copy = json.loads(json.dumps(capture))
    for output in copy["deviceFleetAuxiliaryOutputs"]:
        if "data" in output:
            output["data"] = json.loads(base64.b64decode(output["data"]))
    return copy


def golden_base_tensors(golden: dict[str, Any], image: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    base = golden["base_outputs"]
    mask = np.zeros((1, 1, 3), np.uint8)
    if "palette" in base["mask"]:
        mask = np.tile(PALETTE[0], (*image.shape[:2], 1))
        mask.reshape(-1, 3)[: image.shape[0] * image.shape[1] // 80] = PALETTE[1]
    return {
        "inference_output": np.array([base["output"]], np.uint8),
        "inference_confidence": np.array([base["output_confidence"]], np.float32),
        "inference_score": np.array([base["output_score"]], np.float32),
        "inference_mask": mask,
        "inference_anomalies": as_bytes(base["anomalies"]),
    }


@pytest.mark.parametrize("name", NAMES)
def test_base_outputs_are_the_golden_ones(client: Client, name: str) -> None:
    golden, image = GOLDENS[name], the_image()
    model = name.replace("-", "_")
    outputs = client.infer(f"base_{model}", {"input": image})
    expected = golden_base_tensors(golden, image)
    assert list(outputs) == ["output", "output_confidence", "output_score", "mask", "anomalies"]
    for tensor in ("output", "output_confidence", "output_score"):
        np.testing.assert_array_equal(outputs[tensor], expected[f"inference_{tensor.removeprefix('output_')}"])
        assert outputs[tensor].dtype == expected[f"inference_{tensor.removeprefix('output_')}"].dtype
    assert outputs["mask"].dtype == np.uint8
    if golden["base_outputs"]["mask"] == "zeros":
        assert outputs["mask"].shape == (320, 240, 3)
        assert not outputs["mask"].any()
    else:
        np.testing.assert_array_equal(outputs["mask"], expected["inference_mask"])
    assert json.loads(outputs["anomalies"].tobytes()) == golden["base_outputs"]["anomalies"]


@pytest.mark.parametrize("name", NAMES)
def test_marshal_answers_the_golden_tensors(client: Client, name: str) -> None:
    golden, image = GOLDENS[name], the_image()
    tensors = golden_base_tensors(golden, image)
    outputs = client.infer(
        "marshal_detection_found", {"input": image, **tensors, "metadata": as_bytes(golden["METADATA"])}
    )
    check_ensemble_outputs(golden, image, outputs, "detection_found", "output", "mask", "overlay")


@pytest.mark.parametrize("name", NAMES)
def test_ensemble_answers_the_golden_tensors(client: Client, name: str) -> None:
    golden, image, model = GOLDENS[name], the_image(), name.replace("-", "_")
    outputs = client.capture(model, image, golden["METADATA"])
    check_ensemble_outputs(golden, image, outputs, model, "output_capture", "output_mask", "output_overlay")


def check_ensemble_outputs(
    golden: dict[str, Any],
    image: np.ndarray[Any, Any],
    outputs: dict[str, np.ndarray[Any, Any]],
    model: str,
    *names: str,
) -> None:
    capture_name, mask_name, overlay_name = names
    assert sorted(outputs) == sorted([capture_name, mask_name, overlay_name, "output_anomalous", "output_confidence"])
    capture = parsed(outputs[capture_name], golden, model)
    assert opened(capture) == opened(golden["output_capture"])
    blocks = [block["data"] for block in opened(capture)["deviceFleetAuxiliaryOutputs"] if "data" in block]
    assert blocks == golden["base64_blocks_decoded"]
    assert list(capture) == list(golden["output_capture"])
    np.testing.assert_array_equal(outputs["output_anomalous"], np.array([golden["base_outputs"]["output"]], np.uint8))
    confidence = np.array([golden["base_outputs"]["output_confidence"]], np.float32)
    np.testing.assert_array_equal(outputs["output_confidence"], confidence)
    check_pictures(golden, image, outputs[mask_name], outputs[overlay_name])


def check_pictures(
    golden: dict[str, Any], image: np.ndarray[Any, Any], mask: np.ndarray[Any, Any], overlay: np.ndarray[Any, Any]
) -> None:
    assert mask.dtype == overlay.dtype == np.uint8
    if golden["output_mask"] == "zero-length":
        assert mask.shape == (0,)
    else:
        assert mask[:8].tobytes() == b"\x89PNG\r\n\x1a\n"
        decoded = cv2.cvtColor(cv2.imdecode(mask, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
        np.testing.assert_array_equal(decoded, golden_base_tensors(golden, image)["inference_mask"])
    if golden["output_overlay"] == "zero-length":
        assert overlay.shape == (0,)
        return
    assert overlay[:2].tobytes() == b"\xff\xd8"
    drawn = cv2.cvtColor(cv2.imdecode(overlay, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
    assert drawn.shape == image.shape
    if "unannotated" in golden["output_overlay"]:
        assert np.abs(drawn.astype(int) - image).mean() < 2  # what JPEG costs a smooth image
        assert (drawn[:, :, 1] < 60).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("metadata", [{}, {"capture_id": None}], ids=["empty", "null id"])
def test_empty_metadata_leaves_references_out(client: Client, name: str, metadata: dict[str, Any]) -> None:
    golden, model = GOLDENS[name], name.replace("-", "_")
    capture = opened(parsed(client.capture(model, the_image(), metadata)["output_capture"], golden, model))
    expected = opened(golden["output_capture"])
    truth = expected["deviceGroundTruthData"][0]
    truth.pop("source-ref")
    truth.pop("anomaly-mask-ref-detected", None)
    expected["deviceFleetAuxiliaryInputs"] = []
    expected["deviceFleetAuxiliaryOutputs"] = [
        block for block in expected["deviceFleetAuxiliaryOutputs"] if "data" in block
    ]
    expected["eventMetadata"].update(capture_folder="", eventId="", deviceFleetName="")
    assert capture == expected
