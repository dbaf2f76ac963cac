"""Anomaly heads: class probabilities, a score, an anomaly map, pixel classes; whichever of them the graph has.

What a tensor is follows from its shape (per image): one float = score; [C] with C >= 2 = class head; one map [H, W]
or [1, H, W] = anomaly map; [C, H, W] with C >= 2 = pixel classes. The manifest's `outputs` overrides this.
The verdict is the one of the capture world: normal if round(score, 4) < round(threshold, 4) in Python floats.

Payload: runs inside the server's python (3.9 or newer); needs numpy and opencv.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from ..contract import Array, DecodeError, DecoderConfig, DecodeValueError, shapes_of
from ..geometry import FrameGeometry
from ..results import AnomalyResult

ClassMask = npt.NDArray[np.uint8]

# What each meaning looks like, in the order in which a score is looked for.
LAYOUTS = {
    "classes": "class probabilities [B, C]",
    "score": "one number per image [B]",
    "map": "a map [B, 1, H, W] or [B, H, W]",
    "pixel_classes": "class scores [B, C, H, W] or class indices [B, H, W]",
}


class AnomalyDecoder:
    """Score, verdict and, with pixel classes, a class mask at source size."""

    def __init__(self, config: DecoderConfig) -> None:
        settings = config.settings
        self._threshold = float(settings["threshold"])
        self._normal_ids: list[int] = list(settings["class_normal_ids"])
        self._pixel_names: tuple[str, ...] = tuple(settings["pixel_class_names"])
        self._adapter = config.adapter()

    def __call__(self, outputs: Sequence[Array], frames: Sequence[FrameGeometry]) -> list[AnomalyResult]:
        """Decode the raw outputs (batch axis first); one AnomalyResult per frame.

        Raises:
            DecodeError: No output can give a score, or a class head has no class that is not normal.
            DecodeValueError: The score is not finite.
        """
        heads = self._heads(outputs)
        if not heads.keys() & {"classes", "score", "map"}:
            raise DecodeError(
                "anomaly: expected class probabilities [B, C], a score [B] or a map [B, 1, H, W] among the outputs, "
                f"got {shapes_of(outputs)}; name them in the manifest's outputs"
            )
        images = min(len(head) for head in heads.values())
        if images < len(frames):
            raise DecodeError(f"anomaly: expected {len(frames)} images, got {shapes_of(list(heads.values()))}")
        return [
            self._decode_image({meaning: head[index] for meaning, head in heads.items()}, frame)
            for index, frame in enumerate(frames)
        ]

    def _heads(self, outputs: Sequence[Array]) -> dict[str, Array]:
        """Return the outputs that mean something, batch axis first."""
        heads: dict[str, Array] = {}
        for meaning in LAYOUTS:
            named = self._adapter.get(meaning, outputs)
            alike = [] if self._adapter else [output for output in outputs if _meaning_of(output) == meaning]
            if named is not None or alike:
                heads[meaning] = np.atleast_1d(alike[0] if named is None else named)
        for meaning, head in heads.items():
            if not _fits(meaning, head):
                raise DecodeError(f"anomaly: expected {LAYOUTS[meaning]} as {meaning}, got {shapes_of([head])}")
        return heads

    def _decode_image(self, image: dict[str, Array], frame: FrameGeometry) -> AnomalyResult:
        score = self._score(image)
        # Rounded as Python floats: NumPy's float32 rounding differs between its versions.
        is_anomalous = not round(score, 4) < round(self._threshold, 4)
        certainty = min(max(score, 0.0), 1.0)
        return AnomalyResult(
            score=score,
            is_anomalous=is_anomalous,
            confidence=certainty if is_anomalous else 1 - certainty,
            class_mask=self._class_mask(image, frame),
            class_names=self._pixel_names,
        )

    def _score(self, image: dict[str, Array]) -> float:
        if "classes" in image:
            value = self._class_score(image["classes"].ravel())
        else:
            # Without a score, the highest value of the map is one.
            value = float(image["score" if "score" in image else "map"].max())
        if not np.isfinite(value):
            raise DecodeValueError(f"anomaly: expected a finite score, got {value}; the engine's numbers overflowed")
        return value

    def _class_score(self, classes: Array) -> float:
        """Return the probability of the classes that are not normal."""
        if any(class_id >= len(classes) for class_id in self._normal_ids) or len(self._normal_ids) >= len(classes):
            raise DecodeError(
                f"anomaly: class_normal_ids {self._normal_ids} do not fit a class head of {len(classes)} classes"
            )
        return float(np.delete(classes.astype(np.float64), self._normal_ids).sum())

    def _class_mask(self, image: dict[str, Array], frame: FrameGeometry) -> ClassMask | None:
        if not self._pixel_names:
            return None
        if "pixel_classes" in image:
            pixels = image["pixel_classes"]
            classes = pixels.argmax(axis=0) if pixels.ndim == 3 and len(pixels) > 1 else pixels
        elif "map" in image:
            # Two pixel classes and only a map: background and what reaches the threshold.
            classes = image["map"] >= np.float32(self._threshold)
        else:
            return None
        return _at_source_size(classes.reshape(classes.shape[-2:]).astype(np.uint8), frame)


def create(config: DecoderConfig) -> AnomalyDecoder:
    """Return the family's decoder."""
    return AnomalyDecoder(config)


def _fits(meaning: str, head: Array) -> bool:
    if head.size == 0:
        return False
    if meaning == "classes":
        return head.ndim > 1
    if meaning == "score":
        return head.size == len(head)
    return head.ndim == 3 or (head.ndim == 4 and (meaning == "pixel_classes" or head.shape[1] == 1))


def _meaning_of(output: Array) -> str | None:
    per_image = output.shape[1:]
    is_float = output.dtype.kind == "f"
    if int(np.prod(per_image)) == 1:
        return "score" if is_float else None
    if len(per_image) == 1:
        return "classes" if is_float else None
    if not is_float or (len(per_image) == 3 and per_image[0] > 1):
        return "pixel_classes" if output.dtype.kind in "fiu" else None
    return "map"


def _at_source_size(classes: ClassMask, frame: FrameGeometry) -> ClassMask:
    """Return the class indices [h, w] of the network's map at source size, padding removed."""
    rows, columns = classes.shape[0] / frame.network[0], classes.shape[1] / frame.network[1]
    top, left = round(frame.offset[0] * rows), round(frame.offset[1] * columns)
    height, width = max(round(frame.resized[0] * rows), 1), max(round(frame.resized[1] * columns), 1)
    inner = np.ascontiguousarray(classes[top : top + height, left : left + width])
    resized = cv2.resize(inner, (frame.source[1], frame.source[0]), interpolation=cv2.INTER_NEAREST_EXACT)
    return np.asarray(resized, np.uint8)
