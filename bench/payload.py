"""Decoding, the overlay and preprocessing, in this process."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from bench.timing import MIB, Row, milliseconds
from postprocessors.contract import DecoderConfig, make_decoder
from postprocessors.geometry import FrameGeometry
from runtimes.preprocessors.base import BasePreprocessor

ROOT = Path(__file__).resolve().parents[1]
CLASSES = 80
SETTINGS = {
    "num_classes": CLASSES,
    "score_threshold": 0.25,
    "iou_threshold": 0.45,
    "max_det": 300,
    "class_agnostic": False,
    "top_k": 300,
    "use_softmax": False,
}
FRAME = FrameGeometry((1080, 1920), (640, 640), (640, 640))


def yolo_head(objects: int, anchors: int = 8400, anchors_each: int = 10) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return float32 [1, 84, anchors]: faint noise, and `objects` objects that several neighbouring anchors see."""
    rng = np.random.default_rng(7)
    head = np.empty((1, 4 + CLASSES, anchors), np.float32)
    head[0, :4] = rng.uniform(20, 600, (4, anchors))
    head[0, 4:] = rng.uniform(0, 0.05, (CLASSES, anchors))
    places = rng.choice(anchors, (objects, anchors_each), replace=False)
    for seen_by in places:
        centre, side = rng.uniform(60, 580, 2), rng.uniform(20, 100, 2)
        head[0, :2, seen_by] = centre + rng.normal(0, 2, (anchors_each, 2))
        head[0, 2:4, seen_by] = side + rng.normal(0, 2, (anchors_each, 2))
        head[0, 4 + rng.integers(CLASSES), seen_by] = rng.uniform(0.4, 0.9, anchors_each)
    return head


def _yolo_row(
    name: str, head: np.ndarray[Any, np.dtype[np.float32]], target: str, bound: str, threshold: float = 0.25
) -> Row:
    decode = make_decoder("yolo", DecoderConfig({**SETTINGS, "score_threshold": threshold}))
    median, least = milliseconds(lambda: decode([head], [FRAME]))
    found = len(decode([head], [FRAME])[0].scores)  # type: ignore[union-attr]
    return Row(f"decode yolo {name} ({found} found)", f"{median:.2f} ms (least {least:.2f})", target, bound)


def _yolo() -> Iterator[Row]:
    few, many = yolo_head(20), yolo_head(300)
    scan = "one comparison of 672,000 scores and a look at its marks, then 100 calls of NumPy on 200 numbers"
    crowd = "3,000 candidates: IoU with the best of their class, round by round"
    yield _yolo_row("8400 x 80, 20 objects", few, "0.15 ms", scan)
    yield _yolo_row(
        "8400 x 80, 20 objects, channels last", np.ascontiguousarray(few.transpose(0, 2, 1)), "0.7 ms", scan
    )
    yield _yolo_row("8400 x 80, 300 objects", many, "1.5 ms", crowd)
    yield _yolo_row("8400 x 80, 300 objects, channels last", np.ascontiguousarray(many.transpose(0, 2, 1)), "-", crowd)
    huge = yolo_head(300, 33_600)
    bound = "the best class of every anchor, in chunks; the 30,000 best are suppressed"
    row = _yolo_row("33600 x 80, threshold 0", huge, "-", bound, threshold=0.0)
    decode = make_decoder("yolo", DecoderConfig({**SETTINGS, "score_threshold": 0.0}))
    tracemalloc.start()
    decode([huge], [FRAME])
    peak = tracemalloc.get_traced_memory()[1] / MIB
    tracemalloc.stop()
    yield Row(row.name, f"{row.figure}, {peak:.0f} MiB at its peak", row.target, row.bound)


def decode() -> list[Row]:
    """Time the yolo decoder on 8400 and 33600 anchors x 80 classes, and rf_detr on 300 queries x 91."""
    rows = list(_yolo())
    rng = np.random.default_rng(3)
    logits = rng.normal(-5, 2, (1, 300, 91)).astype(np.float32)
    boxes = rng.uniform(0.1, 0.5, (1, 300, 4)).astype(np.float32)
    rf_detr = make_decoder("rf_detr", DecoderConfig({**SETTINGS, "num_classes": 91, "score_threshold": 0.5}))
    median, least = milliseconds(lambda: rf_detr([boxes, logits], [FRAME]))
    rows.append(Row("decode rf_detr 300 x 91", f"{median:.2f} ms (least {least:.2f})", "-", "sigmoid of 27,300 logits"))
    return rows


def overlay() -> list[Row]:
    """Time the overlay of a 1080p image with 20 boxes: drawing, and with the JPEG."""
    sys.path.insert(0, str(ROOT / "templates/marshal"))
    from overlay import draw_detections, encode_jpeg

    page = cv2.cvtColor(cv2.resize(cv2.imread(str(ROOT / "demo/picture.jpg")), (1920, 1080)), cv2.COLOR_BGR2RGB)
    records = [
        {"bounding_box": [x, y, x + 150, y + 120], "class": 0, "class_label": "gasket", "confidence": 0.9}
        for x in range(40, 1700, 340)
        for y in range(40, 900, 220)
    ]
    drawn, _ = milliseconds(lambda: draw_detections(page, records), runs=60)
    median, least = milliseconds(lambda: encode_jpeg(draw_detections(page, records)), runs=60)
    bound = f"JPEG encoding at quality 90 ({median - drawn:.1f} ms of it)"
    return [Row("overlay 1080p, 20 boxes, with JPEG", f"{median:.1f} ms (least {least:.1f})", "10 ms", bound)]


def preprocess() -> list[Row]:
    """Time 1080p to a 640 x 640 network input, letterboxed."""
    settings = {
        "height": 640,
        "width": 640,
        "channels": 3,
        "layout": "NCHW",
        "interpolation": "linear",
        "preserve_aspect": True,
        "image_range_scale": True,
        "mean": None,
        "std": None,
        "channel_order": "rgb",
    }
    image = np.random.default_rng(5).integers(0, 256, (1080, 1920, 3), np.uint8)
    prepare = BasePreprocessor(settings)
    median, least = milliseconds(lambda: prepare([image]), runs=100)
    return [
        Row("preprocess 1080p to 640, letterbox", f"{median:.2f} ms (least {least:.2f})", "-", "resize, one table pass")
    ]
