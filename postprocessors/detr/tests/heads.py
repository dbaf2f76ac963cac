"""Raw DETR outputs, written query by query, and decoders for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from postprocessors.contract import DecoderConfig
from postprocessors.detr.decode import DetrDecoder, create
from postprocessors.detr.support import DEFAULTS
from postprocessors.geometry import FrameGeometry
from postprocessors.results import Detections

FULL_HD = FrameGeometry((1080, 1920), (640, 640), (640, 640))
# cx, cy, w, h as fractions; on FULL_HD this is [720, 270, 1200, 810].
BOX = (0.5, 0.5, 0.25, 0.5)
BOX_PIXELS = [720.0, 270.0, 1200.0, 810.0]
TWO = 0.8808  # sigmoid(2)
NAMES = ("logits", "pred_boxes")


def decoder(
    names: Sequence[str] = NAMES,
    class_names: Sequence[str] = (),
    outputs: dict[str, Any] | None = None,
    **settings: Any,
) -> DetrDecoder:
    return create(DecoderConfig({**DEFAULTS, **settings}, tuple(class_names), tuple(names), outputs or {}))


def boxes_of(queries: int, *rows: Sequence[float]) -> np.ndarray:
    """Return float32 [1, queries, 4]; queries without a row have a box of their own, far from BOX."""
    boxes = np.tile(np.array([0.1, 0.1, 0.05, 0.05], np.float32), (1, queries, 1))
    for query, row in enumerate(rows):
        boxes[0, query] = row
    return boxes


def logits_of(queries: int, columns: int, peaks: dict[tuple[int, int], float], floor: float = -6.2) -> np.ndarray:
    """Return float32 [1, queries, columns] with `peaks` {(query, column): logit} over `floor`."""
    logits = np.full((1, queries, columns), floor, np.float32)
    for (query, column), value in peaks.items():
        logits[0, query, column] = value
    return logits


def rows_of(*rows: Sequence[float], total: int = 300) -> np.ndarray:
    """Return float32 [1, total, 6]: cx, cy, w, h, score, class; zeros after those given."""
    head = np.zeros((1, total, 6), np.float32)
    head[0, : len(rows)] = np.array(rows, np.float32).reshape(-1, 6)
    return head


def plain(found: Detections) -> list[tuple[int, float, list[float]]]:
    """Return (class, score, box) per detection, rounded to what float32 can promise."""
    return [
        (int(c), round(float(s), 4), [round(float(v), 2) for v in box])
        for c, s, box in zip(found.class_ids, found.scores, found.boxes)
    ]
