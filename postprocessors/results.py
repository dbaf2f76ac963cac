"""What decoders find: one of these per image.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Union, cast

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int32]

# Stands for "a detector found nothing" between base and marshal: a bare [] cannot be told from "no anomalies".
NO_OBJECTS: dict[str, Any] = {
    "bounding_box": [],
    "class": "",
    "class_label": "",
    "confidence": 0.0,
    "no_objects": True,
}


@dataclass(frozen=True)
class InstanceMask:
    """The pixels of one object: a cut-out of the source image, zero outside of it.

    Attributes:
        top: First row of the cut-out in the source image.
        left: First column.
        pixels: uint8 [h, w], 1 where the object is.
    """

    top: int
    left: int
    pixels: npt.NDArray[np.uint8]

    @property
    def area(self) -> int:
        """The object's size in source pixels."""
        return int(np.count_nonzero(self.pixels))


@dataclass(frozen=True)
class Detections:
    """What a detector found in one image, best first.

    Attributes:
        boxes: float32 [n, 4], x1 y1 x2 y2 in source pixels, inside the image.
        scores: float32 [n], 0..1, falling.
        class_ids: int32 [n].
        labels: One name per detection.
        thresholds: The score that each detection had to reach, as the package states it.
        masks: One mask per detection; None where the task has none.
        keypoints: float32 [n, P, 3], x and y in source pixels, inside the image, and visibility 0..1; None likewise.
        rotated: float32 [n, 5], cx, cy, w, h in source pixels and the angle in radians; `boxes` encloses it.
    """

    boxes: FloatArray
    scores: FloatArray
    class_ids: IntArray
    labels: tuple[str, ...]
    thresholds: tuple[float, ...]
    masks: tuple[InstanceMask, ...] | None = None
    keypoints: FloatArray | None = None
    rotated: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.scores)

    @classmethod
    def empty(cls) -> Detections:
        """Return the result of an image on which nothing was found."""
        return cls(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros(0, np.int32), (), ())

    def to_records(self) -> list[dict[str, Any]]:
        """Return one strict-JSON record per detection; an empty list when nothing was found."""
        columns = zip(self.boxes.tolist(), self.class_ids.tolist(), self.labels, self.scores.tolist(), self.thresholds)
        return [
            {
                "bounding_box": box,
                "class": class_id,
                "class_label": label,
                "confidence": score,
                "confidence_threshold": threshold,
            }
            for box, class_id, label, score, threshold in columns
        ]

    def to_json(self) -> bytes:
        """Return the wire form between base and marshal, UTF-8; one sentinel record when nothing was found."""
        return json.dumps(self.to_records() or [NO_OBJECTS], allow_nan=False).encode()

    @classmethod
    def from_json(cls, payload: bytes | str) -> Detections:
        """Read what `to_json` wrote (with or without the sentinel)."""
        records = cast("list[dict[str, Any]]", json.loads(payload))
        found = [record for record in records if not record.get("no_objects")]
        if not found:
            return cls.empty()
        return cls(
            np.array([record["bounding_box"] for record in found], np.float32).reshape(-1, 4),
            np.array([record["confidence"] for record in found], np.float32),
            np.array([record["class"] for record in found], np.int32),
            tuple(record["class_label"] for record in found),
            tuple(record["confidence_threshold"] for record in found),
        )


@dataclass(frozen=True)
class AnomalyResult:
    """The verdict on one image.

    Attributes:
        score: The model's anomaly score, as the model scales it.
        is_anomalous: The verdict.
        confidence: 0..1, how sure the verdict is.
        class_mask: uint8 [H, W] at source size, class index per pixel, 0 = background; None without a pixel head.
        class_names: Name of each class index of `class_mask`.
        anomaly_map: float32 [h, w] at the network's map size; None without one.
    """

    score: float
    is_anomalous: bool
    confidence: float
    class_mask: npt.NDArray[np.uint8] | None = None
    class_names: tuple[str, ...] = ()
    anomaly_map: npt.NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Classification:
    """What the image shows, best first.

    Attributes:
        class_ids: int32 [k].
        scores: float32 [k], 0..1, falling.
        labels: One name per entry.
    """

    class_ids: IntArray
    scores: FloatArray
    labels: tuple[str, ...]


@dataclass(frozen=True)
class ClassMap:
    """The class of every pixel.

    Attributes:
        classes: uint8 [H, W] at source size.
        class_names: Name of each class index.
    """

    classes: npt.NDArray[np.uint8]
    class_names: tuple[str, ...] = ()


Result = Union[Detections, AnomalyResult, Classification, ClassMap]
