"""The demo's judgement, and what it reads."""

from __future__ import annotations

import base64
import json

import pytest

from demo.client import Detection, read_capture
from demo.run import HERE
from demo.verdict import KINDS, Element, Findings, failures, iou, read_truth, table

TRUTH = tuple(Element(kind, (0, 100 * n, 100, 100 * n + 50)) for n, kind in enumerate(KINDS))


def exact(element: Element) -> Detection:
    return Detection(element.label, 0.9, tuple(element.box))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param((0, 0, 10, 10), (0, 0, 10, 10), 1.0, id="same"),
        pytest.param((0, 0, 10, 10), (5, 0, 15, 10), 1 / 3, id="half"),
        pytest.param((0, 0, 10, 10), (20, 20, 30, 30), 0.0, id="apart-in-both-axes"),
        pytest.param((5, 5, 5, 5), (5, 5, 5, 5), 0.0, id="empty"),
    ],
)
def test_iou(first: tuple[float, ...], second: tuple[float, ...], expected: float) -> None:
    assert iou(first, second) == pytest.approx(expected)


def test_all_kinds_found() -> None:
    assert failures(Findings([exact(element) for element in TRUTH], TRUTH)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_that_is_missing_or_elsewhere_or_mislabelled_fails(kind: str) -> None:
    others = [exact(element) for element in TRUTH if element.label != kind]
    (element,) = (element for element in TRUTH if element.label == kind)
    shifted = Detection(kind, 0.9, (60, element.box[1], 160, element.box[3]))
    mislabelled = Detection("Caption", 0.9, tuple(element.box))
    for wrong in ([], [shifted], [mislabelled]):
        (failure,) = failures(Findings([*others, *wrong], TRUTH))
        assert failure.startswith(f"{kind}: best IoU 0.")


def test_the_committed_truth_has_every_kind() -> None:
    assert {element.label for element in read_truth(HERE / "page.json")} == set(KINDS)


def test_table_shows_a_dash_where_nothing_was_typeset() -> None:
    lines = table(Findings([exact(TRUTH[0]), Detection("Caption", 0.4, (1, 2, 3, 4))], TRUTH)).splitlines()
    assert lines[1].split() == ["Title", "0.90", "0.0", "0.0", "100.0", "50.0", "1.00"]
    assert lines[2].split()[-1] == "-"


def test_read_capture_keeps_the_order_of_more_than_ten() -> None:
    found = {
        str(n): {"class_label": f"c{n}", "confidence": 1 - n / 100, "bounding_box": [0, 0, n, n]} for n in range(12)
    }
    scrambled = dict(sorted(found.items()))
    blocks = [{"Detection_count": 12}, {"detections": scrambled}]
    outputs = [
        {"encoding": "BASE64", "data": base64.b64encode(json.dumps(block).encode()).decode()} for block in blocks
    ]
    capture = {"deviceFleetAuxiliaryOutputs": [{"encoding": "NONE", "data-ref": "file:///x"}, *outputs]}
    detections = read_capture(json.dumps(capture).encode())
    assert [detection.label for detection in detections] == [f"c{n}" for n in range(12)]
