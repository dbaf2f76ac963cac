"""marshal's model.py: loading, faulty requests among good ones, and what it writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triton_python_backend_utils as pb_utils
from tests.payload.marshal.wire import FULL_METADATA, NOTHING_FOUND, error_of, json_bytes, make_request, outputs_of

IMAGE = np.full((48, 64, 3), 90, np.uint8)
FOUND = [
    {
        "bounding_box": [1.5, 2.0, 30.0, 40.0],
        "class": 4,
        "class_label": "Füße",
        "confidence": 0.5,
        "confidence_threshold": 0.25,
    }
]
NAN, INFINITE = np.array([np.nan], np.float32), np.array([np.inf], np.float32)
FINITE = "expected a finite number"


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        pytest.param({"input": np.zeros((48, 64), np.uint8)}, "input: got uint8 [48, 64], expected uint8", id="2-d"),
        pytest.param({"input": np.zeros((48, 64, 2), np.uint8)}, "input: got uint8 [48, 64, 2]", id="two channels"),
        pytest.param({"input": np.zeros((0, 64, 3), np.uint8)}, "input: got uint8 [0, 64, 3]", id="no rows"),
        pytest.param({"input": np.zeros((48, 64, 3), np.float32)}, "input: got float32", id="float image"),
        pytest.param({"input": None}, "input: the request has no such input", id="no image"),
        pytest.param({"input": np.zeros((1, 70000, 3), np.uint8)}, "70000 x 1 pixels cannot be written", id="wide"),
        pytest.param({"metadata": None}, "metadata: the request has no such input", id="no metadata"),
        pytest.param({"metadata": np.zeros(0, np.uint8)}, "METADATA: got 0 bytes that are not JSON", id="empty"),
        pytest.param({"inference_score": NAN}, f"score: got nan, {FINITE}", id="nan"),
        pytest.param({"inference_confidence": INFINITE}, f"confidence: got inf, {FINITE}", id="inf"),
        pytest.param({"inference_output": np.zeros(2, np.uint8)}, "inference_output: got shape [2]", id="two verdicts"),
        pytest.param({"inference_anomalies": json_bytes({})}, "got an object, expected a JSON list", id="no list"),
    ],
)
def test_one_bad_request_among_good_ones(load: Callable[[], Any], replaced: dict[str, Any], message: str) -> None:
    numbers = [(1, 0.5, 0.5), (0, 0.25, 0.75), (1, 0.75, 0.75)]
    good, bad, last = (make_request(IMAGE, FOUND, numbers=each) for each in numbers)
    bad = make_request(IMAGE, FOUND, **replaced)
    responses = load().execute([good, bad, last])
    assert len(responses) == 3
    assert outputs_of(responses[0])["output_confidence"].tolist() == [0.5]
    assert message in error_of(responses[1])
    assert error_of(responses[1]).startswith("marshal_widget: ")
    assert responses[1].error().code() == pb_utils.TritonError.INVALID_ARG
    assert lines_of("error") == []
    assert outputs_of(responses[2])["output_confidence"].tolist() == [0.75]


def test_a_fault_of_ours_is_that_requests_error(load: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model = load()
    broken = make_request(IMAGE, FOUND)
    monkeypatch.setattr(broken, "inputs", lambda: 1 // 0)
    responses = model.execute([make_request(IMAGE, FOUND), broken])
    outputs_of(responses[0])
    assert error_of(responses[1]) == (
        "marshal_widget: internal error: ZeroDivisionError: integer division or modulo by zero"
    )
    assert any(level == "error" and "Traceback" in text for level, text in pb_utils.Logger.lines)


def test_no_requests(load: Callable[[], Any]) -> None:
    assert load().execute([]) == []


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("with_mask", [False, True])
def test_inputs_are_not_changed(load: Callable[[], Any], channels: int, with_mask: bool) -> None:
    image = np.random.default_rng(1).integers(0, 256, (48, 64, channels), np.uint8)
    mask = np.random.default_rng(2).integers(1, 256, (48, 64, 3), np.uint8)
    request = make_request(image.copy(), [] if with_mask else FOUND, inference_mask=mask.copy())
    outputs_of(load().execute([request])[0])
    sent = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
    np.testing.assert_array_equal(sent["input"], image)
    np.testing.assert_array_equal(sent["inference_mask"], mask)


def test_numpy_that_the_server_cannot_read(load: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault as server 2.51 shows it with NumPy 2: the first element repeated (tried on Python 3.11 and 3.13)."""
    monkeypatch.setattr(pb_utils.Tensor, "from_dlpack", lambda name, _: pb_utils.Tensor(name, np.ones(2, np.uint8)))
    with pytest.raises(pb_utils.TritonModelException, match=r'^NumPy .* install "numpy<2" .*') as caught:
        load()
    assert "\n" not in str(caught.value)


def capture(load: Callable[[], Any], folder: Path, findings: object, times: int = 1) -> None:
    metadata = {**FULL_METADATA, "sagemaker_edge_core_capture_data_disk_path": str(folder)}
    model = load()
    for _ in range(times):
        outputs_of(model.execute([make_request(IMAGE, findings, metadata)])[0])


def lines_of(level: str) -> list[str]:
    return [text for each, text in pb_utils.Logger.lines if each == level]


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        pytest.param(
            FOUND,
            {
                "0": {
                    "class_index": "4",
                    "class_label": "Füße",
                    "bounding_box": [1.5, 2.0, 30.0, 40.0],
                    "confidence": 0.5,
                }
            },
            id="found",
        ),
        pytest.param(NOTHING_FOUND, {}, id="nothing found"),
    ],
)
def test_detections_file(
    load: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, findings: object, expected: object
) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    monkeypatch.setenv("CAPTURE_ROOTS", str(folder))
    capture(load, folder, findings)
    assert [path.name for path in folder.iterdir()] == ["cam1-0001.detections.json"]
    assert json.loads((folder / "cam1-0001.detections.json").read_text()) == {"detections": expected}
    assert pb_utils.Logger.lines == []


def test_without_roots_nothing_is_written_and_the_log_says_so_once(load: Callable[[], Any], tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    capture(load, folder, FOUND, times=3)
    assert list(folder.iterdir()) == []
    assert len(pb_utils.Logger.lines) == 1
    assert "CAPTURE_ROOTS names no folder" in lines_of("info")[0]


def test_a_failed_write_is_told_once_and_the_request_answered(
    load: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPTURE_ROOTS", str(tmp_path / "allowed"))
    capture(load, tmp_path, FOUND, times=3)
    assert len(lines_of("warn")) == 1
    assert "is not below a folder of CAPTURE_ROOTS" in lines_of("warn")[0]


def test_an_anomaly_writes_no_detections(
    load: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    monkeypatch.setenv("CAPTURE_ROOTS", str(folder))
    capture(load, folder, [])
    assert list(folder.iterdir()) == []
