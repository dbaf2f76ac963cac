"""What every decoder takes and returns.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
A decoder family is the folder `postprocessors/<name>/`; its `decode.py` has `create(config) -> Decoder`.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Union, cast

import numpy as np
import numpy.typing as npt

from .adapter import OutputAdapter

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int32]
Array = npt.NDArray[Any]

# Stands for "a detector found nothing" between base and marshal: a bare [] cannot be told from "no anomalies".
NO_OBJECTS: dict[str, Any] = {
    "bounding_box": [],
    "class": "",
    "class_label": "",
    "confidence": 0.0,
    "no_objects": True,
}


# Beyond this, areas overflow float32; no image is that large.
MAX_COORDINATE = np.float32(1e9)


class DecodeError(Exception):
    """The raw outputs are not what the decoder documents; the text is one line with the shapes seen and expected."""


class DecodeValueError(DecodeError):
    """The shapes are right, but these numbers cannot be a result; another image may give better ones."""


@dataclass(frozen=True)
class FrameGeometry:
    """How one source image became the network's input; the decoder inverts exactly this.

    Attributes:
        source: (height, width) of the source image, pixels.
        resized: (height, width) of the image inside the network input, without padding.
        network: (height, width) of the network input.
        offset: (top, left) padding, pixels of the network input.
    """

    source: tuple[int, int]
    resized: tuple[int, int]
    network: tuple[int, int]
    offset: tuple[int, int] = (0, 0)

    def to_source(self, boxes: FloatArray) -> FloatArray:
        """Map xyxy boxes [n, 4] from network-input pixels to source pixels, clipped to the image."""
        (height, width), (resized_height, resized_width) = self.source, self.resized
        top, left = self.offset
        pad = np.array([left, top, left, top], np.float32)
        scale = np.array([width / resized_width, height / resized_height] * 2, np.float32)
        return self.clip((boxes - pad) * scale)

    def clip(self, boxes: FloatArray) -> FloatArray:
        """Clip xyxy boxes [n, 4] in source pixels to the source image."""
        height, width = self.source
        limits = np.array([width, height, width, height], np.float32)
        return np.minimum(np.maximum(boxes, np.float32(0)), limits)


@dataclass(frozen=True)
class Detections:
    """What a detector found in one image, best first.

    Attributes:
        boxes: float32 [n, 4], x1 y1 x2 y2 in source pixels, inside the image.
        scores: float32 [n], 0..1, falling.
        class_ids: int32 [n].
        labels: One name per detection.
        thresholds: The score that each detection had to reach, as the package states it.
    """

    boxes: FloatArray
    scores: FloatArray
    class_ids: IntArray
    labels: tuple[str, ...]
    thresholds: tuple[float, ...]

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
    """

    score: float
    is_anomalous: bool
    confidence: float
    class_mask: npt.NDArray[np.uint8] | None = None
    class_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class DecoderConfig:
    """What a decoder is made from.

    Attributes:
        settings: The family's own settings (its support.py's DEFAULTS, merged with the manifest).
        class_names: Names by class id; may be empty.
        output_names: Names of the raw outputs in order; empty strings where the engine loses names.
        outputs: The manifest's output adapter, {meaning: {"tensor": index or name, "activation": ...}}.
    """

    settings: Mapping[str, Any]
    class_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    outputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])

    def adapter(self) -> OutputAdapter:
        """Return the output adapter.

        Raises:
            DecodeError: The manifest names an output that the graph does not have.
        """
        try:
            return OutputAdapter(self.outputs, self.output_names)
        except ValueError as error:
            raise DecodeError(str(error)) from error


class ClassRules:
    """Which classes are kept, at which score, under which name.

    Args:
        settings: `score_threshold`; optional `class_thresholds` {name: t}, `classes` (ids or names that are kept),
            `compare` ("greater" keeps score > threshold, anything else score >= threshold).
        class_names: Names by class id.
        columns: How many class ids the head can give.

    Raises:
        DecodeError: `settings` speaks of a class that the head cannot give.
    """

    def __init__(self, settings: Mapping[str, Any], class_names: Sequence[str], columns: int) -> None:
        self.names = tuple(label_of(class_names, class_id) for class_id in range(columns))
        self._stated = [float(settings["score_threshold"])] * columns
        per_class = cast("Mapping[str, float]", settings.get("class_thresholds") or {})
        for name, threshold in per_class.items():
            self._stated[self._id_of(name)] = float(threshold)
        # Compared in float32, as scores are: a score of exactly the threshold counts on every platform.
        self._thresholds: FloatArray = np.array(self._stated, np.float32)
        self._kept = np.ones(columns, bool)
        kept = settings.get("classes")
        if kept is not None:
            self._kept[:] = False
            self._kept[[self._id_of(wanted) for wanted in kept]] = True
        self._strict = settings.get("compare") == "greater"
        self.lowest = np.float32(self._thresholds.min(initial=np.inf))

    def _id_of(self, wanted: str | int) -> int:
        if isinstance(wanted, str) and wanted in self.names:
            return self.names.index(wanted)
        if isinstance(wanted, int) and 0 <= wanted < len(self.names):
            return wanted
        raise DecodeError(f"detection: expected one of the model's {len(self.names)} classes, got {wanted!r}")

    def passes(self, scores: FloatArray, class_ids: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return which of the scores [n] reach their class's threshold; NaN never does."""
        limits = self._thresholds[class_ids]
        reached = scores > limits if self._strict else scores >= limits
        return reached & self._kept[class_ids]

    def detections(self, boxes: FloatArray, scores: FloatArray, class_ids: npt.NDArray[Any]) -> Detections:
        """Return Detections of clipped source-pixel boxes, given best first; boxes without area are dropped."""
        kept = np.flatnonzero((boxes[:, 2:] > boxes[:, :2]).all(axis=1))
        ids: list[int] = class_ids[kept].tolist()
        return Detections(
            boxes[kept],
            scores[kept],
            class_ids[kept].astype(np.int32),
            tuple(self.names[class_id] for class_id in ids),
            tuple(self._stated[class_id] for class_id in ids),
        )


Result = Union[Detections, AnomalyResult]


class Decoder(Protocol):
    """Turns the raw outputs of one batch into one result per image."""

    def __call__(self, outputs: Sequence[Array], frames: Sequence[FrameGeometry]) -> Sequence[Result]:
        """Decode `outputs` (batch axis first) for the images described by `frames`.

        Raises:
            DecodeError: The shapes or values are not the ones the decoder documents.
        """
        ...


def label_of(class_names: Sequence[str], class_id: int) -> str:
    """Return the class's name, or `class_<id>` where the package names none."""
    if 0 <= class_id < len(class_names) and class_names[class_id]:
        return class_names[class_id]
    return f"class_{class_id}"


def plausible(boxes: Array) -> npt.NDArray[np.bool_]:
    """Return which of the boxes [n, 4] have four finite numbers of a size that float32 can calculate with."""
    return (np.abs(boxes) < MAX_COORDINATE).all(axis=1)


def shapes_of(outputs: Sequence[Array]) -> str:
    """Return the outputs' shapes for a message."""
    return ", ".join(str(list(output.shape)) for output in outputs) or "none"


def make_decoder(family: str, config: DecoderConfig) -> Decoder:
    """Return the decoder of `postprocessors/<family>/`."""
    module = importlib.import_module(f"{__package__}.{family}.decode")
    return module.create(config)
