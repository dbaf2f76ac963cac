"""The capture JSON's golden files read back, and shown."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from convertor.errors import ServerError
from convertor.infer.results import Detection, Detections, Region, Verdict, parse_capture
from convertor.infer.show import plain_lines, table_of

CAPTURES = Path(__file__).resolve().parents[2] / "data/capture"


def capture(name: str) -> bytes:
    return json.dumps(json.loads((CAPTURES / f"{name}.json").read_text())["output_capture"]).encode()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "detection-found",
            Detections(
                (
                    Detection("gasket", 17, 0.9375, (10.5, 20.0, 110.25, 220.0)),
                    Detection("bolt", 0, 0.5, (0.0, 0.0, 50.0, 60.0)),
                )
            ),
        ),
        ("detection-none", Detections(())),
        (
            "anomaly-with-mask",
            Verdict(
                "Anomaly",
                True,
                0.875,
                0.875,
                (Region("background", 0.9875, "#ffffff"), Region("scratch", 0.0125, "#23a436")),
            ),
        ),
        ("anomaly-without-mask", Verdict("Normal", False, 0.25, 0.75, ())),
    ],
)
def test_golden_captures(name: str, expected: object) -> None:
    assert parse_capture(capture(name)) == expected


def test_detections_keep_their_rank_beyond_ten() -> None:
    document: dict[str, Any] = json.loads(capture("detection-none"))
    block = {
        str(rank): {"class_index": "0", "class_label": f"n{rank}", "bounding_box": [0, 0, 1, 1], "confidence": 0.5}
        for rank in (10, 2, 0)
    }
    document["deviceFleetAuxiliaryOutputs"].append(
        {"data": base64.b64encode(json.dumps({"detections": block}).encode()).decode()}
    )
    result = parse_capture(json.dumps(document).encode())
    assert isinstance(result, Detections)
    assert [found.label for found in result.objects] == ["n0", "n2", "n10"]


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", b'{"deviceFleetAuxiliaryOutputs": [{"data": "!"}]}'])
def test_what_is_no_capture_json_is_one_line(content: bytes) -> None:
    with pytest.raises(ServerError, match="not a capture JSON"):
        parse_capture(content)


def test_names_cannot_steer_the_terminal_and_wide_ones_stay_aligned() -> None:
    result = Detections((Detection("\x1b[31m\nred", 0, 1.0, (0, 0, 1, 1)), Detection("螺栓", 1, 0.5, (1000, 0, 1, 1))))
    lines = plain_lines(table_of("a\nb.png", (10, 20), "m version 1", result))
    assert lines == [
        "a b.png (10 x 20), m version 1: 2 detections",
        "  label         class  confidence      x1   y1   x2   y2",
        "  \\x1b[31m red      0     100.0 %     0.0  0.0  1.0  1.0",
        "  螺栓              1      50.0 %  1000.0  0.0  1.0  1.0",
    ]
