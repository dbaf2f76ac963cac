"""What the server says of one image: the capture JSON, read once into frozen values."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Union, cast

from convertor.errors import ServerError

Json = dict[str, Any]
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Detection:
    """One object.

    Attributes:
        label: Its class's name.
        class_id: Its class.
        confidence: 0..1.
        box: x1, y1, x2, y2 in pixels of the upright image.
    """

    label: str
    class_id: int
    confidence: float
    box: Box

    def to_json(self) -> Json:
        """Return what `--json` shows."""
        return {"label": self.label, "class": self.class_id, "confidence": self.confidence, "box": list(self.box)}


@dataclass(frozen=True)
class Detections:
    """What a detector found, best first; empty when nothing."""

    objects: tuple[Detection, ...]

    def to_json(self) -> Json:
        """Return what `--json` shows."""
        return {"task": "object_detection", "detections": [found.to_json() for found in self.objects]}


@dataclass(frozen=True)
class Region:
    """A pixel class that is present: its name, its share of the image 0..1, its colour in the mask (`#rrggbb`)."""

    name: str
    area: float
    color: str

    def to_json(self) -> Json:
        """Return what `--json` shows."""
        return {"name": self.name, "area": self.area, "color": self.color}


@dataclass(frozen=True)
class Verdict:
    """What an anomaly model says.

    Attributes:
        label: `Anomaly` or `Normal`.
        is_anomalous: The verdict.
        score: As the model scales it.
        confidence: 0..1, how sure the verdict is.
        classes: The pixel classes present, in class order; empty without a mask.
    """

    label: str
    is_anomalous: bool
    score: float
    confidence: float
    classes: tuple[Region, ...]

    def to_json(self) -> Json:
        """Return what `--json` shows."""
        return {
            "task": "anomaly",
            "label": self.label,
            "is_anomalous": self.is_anomalous,
            "score": self.score,
            "confidence": self.confidence,
            "classes": [region.to_json() for region in self.classes],
        }


Result = Union[Detections, Verdict]


def parse_capture(capture: bytes) -> Result:
    """Read an `output_capture`.

    Raises:
        ServerError: It is not a capture JSON.
    """
    try:
        document = json.loads(capture)
        blocks: Json = {}
        for entry in document["deviceFleetAuxiliaryOutputs"]:
            if "data" in entry:
                blocks.update(json.loads(base64.b64decode(entry["data"])))
        if "detections" in blocks:
            return Detections(tuple(_detection(record) for record in _ranked(blocks["detections"])))
        return _verdict(document["deviceGroundTruthData"][0], blocks)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise ServerError(f"the answer's output_capture is not a capture JSON ({error!r})") from error


def _ranked(block: Mapping[str, Any]) -> list[Json]:
    return [cast("Json", block[rank]) for rank in sorted(block, key=int)]


def _detection(record: Json) -> Detection:
    x1, y1, x2, y2 = (float(side) for side in record["bounding_box"])
    return Detection(
        str(record["class_label"]), int(record["class_index"]), float(record["confidence"]), (x1, y1, x2, y2)
    )


def _verdict(truth: Json, blocks: Json) -> Verdict:
    regions = [
        Region(str(record["class-name"]), float(record["total-percentage-area"]), str(record["hex-color"]))
        for record in _ranked(blocks.get("anomalies", {}))
    ]
    return Verdict(
        str(blocks["Inference result"]),
        bool(truth["anomaly-label-detected"]),
        float(blocks["Anomaly_score"]),
        float(blocks["Confidence"]),
        tuple(regions),
    )
