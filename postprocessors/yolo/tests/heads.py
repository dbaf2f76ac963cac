"""Raw YOLO heads, written anchor by anchor, and decoders for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from postprocessors.contract import DecoderConfig
from postprocessors.geometry import FrameGeometry
from postprocessors.results import Detections
from postprocessors.yolo.decode import YoloDecoder, create
from postprocessors.yolo.support import DEFAULTS

SQUARE = FrameGeometry((640, 640), (640, 640), (640, 640))


def decoder(
    num_classes: int,
    class_names: Sequence[str] = (),
    outputs: dict[str, Any] | None = None,
    names: Sequence[str] = ("output0",),
    **settings: Any,
) -> YoloDecoder:
    merged = {**DEFAULTS, "num_classes": num_classes, **settings}
    return create(DecoderConfig(merged, tuple(class_names), tuple(names), outputs or {}))


def head(num_classes: int, anchors: int, *rows: Sequence[float]) -> np.ndarray:
    """Return float32 [1, 4 + num_classes, anchors]; row i is cx, cy, w, h, class id, score of anchor i."""
    raw = np.zeros((1, 4 + num_classes, anchors), np.float32)
    for anchor, (cx, cy, width, height, class_id, score) in enumerate(rows):
        raw[0, :4, anchor] = cx, cy, width, height
        raw[0, 4 + int(class_id), anchor] = score
    return raw


def corner_row(x1: float, y1: float, x2: float, y2: float, class_id: int, score: float) -> tuple[float, ...]:
    """Return the row of `head` that describes a box by its corners."""
    return ((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1, class_id, score)


def plain(found: Detections) -> list[tuple[int, float, list[float]]]:
    """Return (class, score, box) per detection, rounded to what float32 can promise."""
    return [
        (int(c), round(float(s), 5), [round(float(v), 3) for v in box])
        for c, s, box in zip(found.class_ids, found.scores, found.boxes)
    ]
