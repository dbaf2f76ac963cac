"""What marshal accepts of a client's METADATA and of base's findings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from capture_request import MAX_METADATA_BYTES, Metadata, RequestError, is_file_name, read_findings, read_metadata
from tests.payload.marshal.wire import ANOMALY_FOUND, FULL_METADATA, NOTHING_FOUND

FOLDER = "sagemaker_edge_core_capture_data_disk_path"
BOX = {"bounding_box": [0.0, 0.0, 1.0, 1.0], "class": 0, "class_label": "a", "confidence": 0.5}


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        pytest.param(b"{}", Metadata(), id="empty object"),
        pytest.param(
            json.dumps(FULL_METADATA).encode(), Metadata("cam1-0001", "/data/captures/line-a", "fleet-1"), id="full"
        ),
        pytest.param(b' {"capture_id": "a", "other": [NaN]} \n', Metadata("a"), id="other keys ignored"),
        pytest.param('{"capture_id": "Füße"}'.encode(), Metadata("Füße"), id="not ASCII"),
        pytest.param(b'{"capture_id": ""}', Metadata(), id="empty id"),
        pytest.param(b'{"capture_id": null}', Metadata(), id="null id"),
    ],
)
def test_metadata(payload: bytes, expected: Metadata) -> None:
    assert read_metadata(payload) == expected


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        pytest.param(b"", "METADATA: got 0 bytes that are not JSON", id="nothing"),
        pytest.param(b"capture", "METADATA: got 7 bytes that are not JSON", id="not JSON"),
        pytest.param(b'{"capture_id": "a"', "METADATA: got 18 bytes that are not JSON", id="cut off"),
        pytest.param(b"{}\0\0", "METADATA: got 4 bytes that are not JSON", id="padded with zero bytes"),
        pytest.param(b'{"capture_id": "\xff"}', "METADATA: got bytes that are not UTF-8", id="not UTF-8"),
        pytest.param("{}".encode("utf-16"), "METADATA: got bytes that are not UTF-8", id="UTF-16"),
        pytest.param(b"[]", "METADATA: got a list, expected a JSON object", id="a list"),
        pytest.param(b'"a"', "METADATA: got a string, expected a JSON object", id="a string"),
        pytest.param(b"null", "METADATA: got null, expected a JSON object", id="null"),
        pytest.param(b"1", "METADATA: got a number, expected a JSON object", id="a number"),
        pytest.param(b"[" * 200_000, "METADATA: got JSON nested too deeply", id="deep"),
        pytest.param(b" " * (MAX_METADATA_BYTES + 1), "expected at most 1048576", id="too long"),
        pytest.param(b'{"capture_id": 1}', "METADATA: capture_id: got a number, expected a string", id="id number"),
        pytest.param(f'{{"{FOLDER}": []}}'.encode(), f"METADATA: {FOLDER}: got a list", id="folder list"),
        pytest.param(
            b'{"sagemaker_edge_core_device_fleet_name": true}',
            "device_fleet_name: got true or false, expected a string",
            id="fleet bool",
        ),
    ],
)
def test_bad_metadata(payload: bytes, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_metadata(payload)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("metadata", "path"),
    [
        pytest.param(Metadata("a", "/data"), "/data/a.jpg", id="both"),
        pytest.param(Metadata("a", "/data/"), "/data/a.jpg", id="trailing slash"),
        pytest.param(Metadata("a", "/"), "/a.jpg", id="root"),
        pytest.param(Metadata("a.b", "/data"), "/data/a.b.jpg", id="dot in the id"),
        pytest.param(Metadata("a", ""), None, id="no folder"),
        pytest.param(Metadata("", "/data"), None, id="no id"),
        pytest.param(Metadata("../a", "/data"), None, id="id climbs"),
        pytest.param(Metadata("/etc/a", "/data"), None, id="id is absolute"),
    ],
)
def test_path(metadata: Metadata, path: str | None) -> None:
    assert metadata.path("jpg") == path


@pytest.mark.parametrize("capture_id", ["", ".", "..", "a/b", "/a", "a\\b", "a\0", "../a"])
def test_no_file_name(capture_id: str) -> None:
    assert not is_file_name(capture_id)


@pytest.mark.parametrize(
    ("findings", "is_detection", "count"),
    [
        pytest.param([], False, 0, id="anomaly without classes"),
        pytest.param(ANOMALY_FOUND, False, 2, id="anomaly classes"),
        pytest.param([BOX], True, 1, id="detection"),
        pytest.param(NOTHING_FOUND, True, 0, id="sentinel"),
    ],
)
def test_findings(findings: object, is_detection: bool, count: int) -> None:
    got = read_findings(json.dumps(findings).encode())
    assert (got.is_detection, len(got.records)) == (is_detection, count)


@pytest.mark.parametrize(
    ("findings", "message"),
    [
        pytest.param({}, "got an object, expected a JSON list", id="object"),
        pytest.param([1], "got a number in the list", id="number inside"),
        pytest.param([{}], "expected name and hex_color", id="empty record"),
        pytest.param([BOX, ANOMALY_FOUND[0]], "bounding_box: expected 4 finite numbers", id="mixed kinds"),
        pytest.param([{**BOX, "bounding_box": [1, 2, 3]}], "bounding_box: expected 4", id="three corners"),
        pytest.param([{**BOX, "bounding_box": [1, 2, 3, float("nan")]}], "bounding_box: expected 4", id="nan corner"),
        pytest.param([{**BOX, "bounding_box": "1234"}], "bounding_box: expected 4", id="text box"),
        pytest.param([{**BOX, "confidence": None}], "confidence: expected a finite number", id="no confidence"),
        pytest.param([{**BOX, "confidence": float("inf")}], "confidence: expected a finite", id="infinite confidence"),
        pytest.param([{**BOX, "class": "a"}], "expected class (an integer)", id="text class"),
        pytest.param([{**BOX, "class_label": 1}], "class_label (a string)", id="number label"),
        pytest.param([{**ANOMALY_FOUND[0], "total_percentage_area": "1"}], "total_percentage_area", id="text area"),
    ],
)
def test_bad_findings(findings: Any, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_findings(json.dumps(findings).encode())
    assert str(caught.value).startswith("inference_anomalies: ")
    assert message in str(caught.value)
