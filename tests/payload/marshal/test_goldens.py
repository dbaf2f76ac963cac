"""marshal against the golden files of the capture contract, tensor by tensor."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from postprocessors.palette import colour_mask
from tests.payload.marshal.wire import FULL_METADATA, make_request, outputs_of

DATA = Path(__file__).parents[2] / "data/capture"
GOLDENS = ["anomaly-with-mask", "anomaly-without-mask", "detection-found", "detection-none"]
IMAGE = np.random.default_rng(0).integers(0, 256, (240, 160, 3), np.uint8)


def read_golden(name: str) -> dict[str, Any]:
    return json.loads((DATA / f"{name}.json").read_text())


def golden_mask(name: str) -> np.ndarray:
    if name == "anomaly-with-mask":
        classes = np.zeros(IMAGE.shape[:2], np.uint8)
        classes[10:20, 5:53] = 1
        return colour_mask(classes)
    return np.zeros(IMAGE.shape if name.startswith("anomaly") else (1, 1, 3), np.uint8)


def answer(load: Callable[[], Any], name: str, metadata: object = FULL_METADATA) -> Mapping[str, np.ndarray]:
    base = read_golden(name)["base_outputs"]
    numbers = (base["output"], base["output_confidence"], base["output_score"])
    request = make_request(IMAGE, base["anomalies"], metadata, numbers, inference_mask=golden_mask(name))
    (response,) = load().execute([request])
    return outputs_of(response)


def with_blocks_parsed(document: dict[str, Any]) -> dict[str, Any]:
    for entry in document["deviceFleetAuxiliaryOutputs"]:
        if "data" in entry:
            entry["data"] = json.loads(base64.b64decode(entry["data"]))
    return document


def decode(data: np.ndarray) -> np.ndarray:
    picture = cv2.imdecode(data, cv2.IMREAD_COLOR)
    assert picture is not None
    return cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)


@pytest.mark.parametrize("name", GOLDENS)
def test_capture_json(load: Callable[[], Any], name: str) -> None:
    golden = read_golden(name)
    document = json.loads(answer(load, name)["output"].tobytes())
    got, expected = with_blocks_parsed(document), with_blocks_parsed(golden["output_capture"])
    assert json.dumps(got, indent=1) == json.dumps(expected, indent=1)  # also the order of the keys
    blocks = [entry["data"] for entry in got["deviceFleetAuxiliaryOutputs"] if "data" in entry]
    assert blocks == golden["base64_blocks_decoded"]


@pytest.mark.parametrize("name", GOLDENS)
def test_other_outputs(load: Callable[[], Any], name: str) -> None:
    golden = read_golden(name)
    outputs = answer(load, name)
    assert list(outputs) == ["output", "mask", "overlay", "output_anomalous", "output_confidence"]
    assert {key: str(value.dtype) for key, value in outputs.items()} == {
        "output": "uint8",
        "mask": "uint8",
        "overlay": "uint8",
        "output_anomalous": "uint8",
        "output_confidence": "float32",
    }
    assert outputs["output_anomalous"].tolist() == [golden["base_outputs"]["output"]]
    assert outputs["output_confidence"].tolist() == [golden["base_outputs"]["output_confidence"]]
    assert (outputs["mask"].shape == (0,)) == (golden["output_mask"] == "zero-length")
    assert (outputs["overlay"].shape == (0,)) == (golden["output_overlay"] == "zero-length")


def test_mask_is_the_palette_picture(load: Callable[[], Any]) -> None:
    outputs = answer(load, "anomaly-with-mask")
    assert outputs["mask"][:8].tobytes() == b"\x89PNG\r\n\x1a\n"
    np.testing.assert_array_equal(decode(outputs["mask"]), golden_mask("anomaly-with-mask"))
    assert outputs["overlay"][:3].tobytes() == b"\xff\xd8\xff"
    assert decode(outputs["overlay"]).shape == IMAGE.shape


def test_nothing_found_draws_nothing(load: Callable[[], Any]) -> None:
    _, expected = cv2.imencode(".jpg", cv2.cvtColor(IMAGE, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 90])
    np.testing.assert_array_equal(answer(load, "detection-none")["overlay"], expected.reshape(-1))


@pytest.mark.parametrize("name", GOLDENS)
def test_empty_metadata_leaves_out_what_it_does_not_know(load: Callable[[], Any], name: str) -> None:
    document = with_blocks_parsed(json.loads(answer(load, name, {})["output"].tobytes()))
    expected = with_blocks_parsed(read_golden(name)["output_capture"])
    expected["deviceFleetAuxiliaryInputs"] = []
    outputs = expected["deviceFleetAuxiliaryOutputs"]
    expected["deviceFleetAuxiliaryOutputs"] = [entry for entry in outputs if "data-ref" not in entry]
    for key in ("source-ref", "anomaly-mask-ref-detected"):
        expected["deviceGroundTruthData"][0].pop(key, None)
    expected["eventMetadata"].update(capture_folder="", eventId="", deviceFleetName="")
    assert document == expected


@pytest.mark.parametrize(
    ("mask", "counts"),
    [
        pytest.param(np.full((240, 160, 3), 255, np.uint8), True, id="all background"),
        pytest.param(np.zeros((240, 160, 3), np.uint8), False, id="all zero"),
        pytest.param(np.full((160, 240, 3), 255, np.uint8), False, id="height and width swapped"),
        pytest.param(np.full((1, 1, 3), 255, np.uint8), False, id="another size"),
        pytest.param(np.full((240, 160, 1), 255, np.uint8), False, id="one channel"),
    ],
)
def test_which_mask_counts(load: Callable[[], Any], mask: np.ndarray, counts: bool) -> None:
    (response,) = load().execute([make_request(IMAGE, [], inference_mask=mask)])
    outputs = outputs_of(response)
    assert (outputs["mask"].size > 0, outputs["overlay"].size > 0) == (counts, counts)
    truth = json.loads(outputs["output"].tobytes())["deviceGroundTruthData"][0]
    assert ("anomaly-mask-ref-detected" in truth) == counts


def test_detection_files_follow_the_ids_folder(load: Callable[[], Any], tmp_path: Path) -> None:
    """Ids that would leave the folder name no file, but stay the event's id."""
    metadata = {**FULL_METADATA, "capture_id": "../../etc/cron.d/x"}
    document = json.loads(answer(load, "detection-found", metadata)["output"].tobytes())
    assert document["eventMetadata"]["eventId"] == "../../etc/cron.d/x"
    document["eventMetadata"] = {}
    assert "cron" not in json.dumps(document)
