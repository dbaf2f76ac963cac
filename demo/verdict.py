"""Whether the page's elements were found where they were typeset."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from demo.client import Detection

KINDS = ("Title", "Text", "Table", "Picture")
ENOUGH = 0.5  # intersection over union
Box = Sequence[float]


@dataclass(frozen=True)
class Element:
    """One typeset element: its kind and x1, y1, x2, y2 in pixels of the page."""

    label: str
    box: Box


@dataclass(frozen=True)
class Findings:
    """What the server found on the page and what is on it."""

    detections: Sequence[Detection]
    truth: Sequence[Element]


def read_truth(path: Path) -> tuple[Element, ...]:
    """Return the typeset elements of page.json."""
    return tuple(Element(**entry) for entry in json.loads(path.read_text(encoding="utf-8")))


def iou(first: Box, second: Box) -> float:
    """Return the intersection over union of two xyxy boxes, 0..1; 0 when neither has an area."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    shared = max(width, 0.0) * max(height, 0.0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    union = sum(areas) - shared
    return shared / union if union else 0.0


def best_iou(findings: Findings, kind: str) -> float:
    """Return the largest IoU between a detection and a typeset element of that kind; 0 when there is no such pair."""
    pairs = [
        iou(detection.box, element.box)
        for detection in findings.detections
        for element in findings.truth
        if detection.label == element.label == kind
    ]
    return max(pairs, default=0.0)


def failures(findings: Findings) -> list[str]:
    """Return one phrase per kind that was not found where it was typeset; empty when all were."""
    return [
        f"{kind}: best IoU {best_iou(findings, kind):.2f} with a typeset {kind}, expected at least {ENOUGH}"
        for kind in KINDS
        if best_iou(findings, kind) < ENOUGH
    ]


def summary(findings: Findings) -> str:
    """Return how well each kind was found, in one line."""
    kinds = ", ".join(f"{kind} {best_iou(findings, kind):.2f}" for kind in KINDS)
    return f"{kinds} (IoU with the typeset page, at least {ENOUGH} needed)"


def table(findings: Findings) -> str:
    """Return the detections as lines of text, best first, each with its IoU where the page has such an element."""
    lines = [f"{'class':16}{'score':>6}{'x1':>9}{'y1':>8}{'x2':>8}{'y2':>8}{'IoU':>7}"]
    for detection in findings.detections:
        same = [iou(detection.box, element.box) for element in findings.truth if element.label == detection.label]
        overlap = f"{max(same):.2f}" if same else "-"
        corners = "".join(f"{value:8.1f}" for value in detection.box)
        lines.append(f"{detection.label:16}{detection.score:6.2f} {corners}{overlap:>7}")
    return "\n".join(lines)
