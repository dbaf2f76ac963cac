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

from ..contract import AnomalyResult, Array, DecodeError, DecoderConfig, FrameGeometry

ClassMask = npt.NDArray[np.uint8]


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
        """
        heads = {meaning: self._find(meaning, outputs) for meaning in ("classes", "score", "map", "pixel_classes")}
        return [self._decode_image(index, heads, frame) for index, frame in enumerate(frames)]

    def _find(self, meaning: str, outputs: Sequence[Array]) -> Array | None:
        if self._adapter:
            return self._adapter.get(meaning, outputs)
        return next((output for output in outputs if _meaning_of(output) == meaning), None)

    def _decode_image(self, index: int, heads: dict[str, Array | None], frame: FrameGeometry) -> AnomalyResult:
        images = {meaning: None if head is None else np.atleast_1d(head)[index] for meaning, head in heads.items()}
        score = self._score(images)
        # Rounded as Python floats: NumPy's float32 rounding differs between its versions.
        is_anomalous = not round(score, 4) < round(self._threshold, 4)
        certainty = min(max(score, 0.0), 1.0)
        return AnomalyResult(
            score=score,
            is_anomalous=is_anomalous,
            confidence=certainty if is_anomalous else 1 - certainty,
            class_mask=self._class_mask(images, frame),
            class_names=self._pixel_names,
        )

    def _score(self, images: dict[str, Array | None]) -> float:
        classes, score, anomaly_map = images["classes"], images["score"], images["map"]
        if classes is not None:
            value = self._class_score(classes.ravel())
        elif score is not None:
            value = float(score.ravel()[0])
        elif anomaly_map is not None:
            value = float(anomaly_map.max())
        else:
            raise DecodeError(
                "anomaly: expected class probabilities [B, C], a score [B] or a map [B, 1, H, W] among the outputs, "
                "got none; name them in the manifest's outputs"
            )
        if not np.isfinite(value):
            raise DecodeError(f"anomaly: expected a finite score, got {value}; the engine's numbers overflowed")
        return value

    def _class_score(self, classes: Array) -> float:
        """Return the probability of the classes that are not normal."""
        if any(class_id >= len(classes) for class_id in self._normal_ids) or len(self._normal_ids) >= len(classes):
            raise DecodeError(
                f"anomaly: class_normal_ids {self._normal_ids} do not fit a class head of {len(classes)} classes"
            )
        return float(np.delete(classes.astype(np.float64), self._normal_ids).sum())

    def _class_mask(self, images: dict[str, Array | None], frame: FrameGeometry) -> ClassMask | None:
        if not self._pixel_names:
            return None
        pixels, anomaly_map = images["pixel_classes"], images["map"]
        if pixels is not None:
            classes = (
                pixels.argmax(axis=0) if pixels.ndim == 3 and len(pixels) > 1 else pixels.reshape(pixels.shape[-2:])
            )
        elif anomaly_map is not None:
            # Two pixel classes and only a map: background and what reaches the threshold.
            classes = anomaly_map.reshape(anomaly_map.shape[-2:]) >= np.float32(self._threshold)
        else:
            return None
        return _at_source_size(classes.astype(np.uint8), frame)


def create(config: DecoderConfig) -> AnomalyDecoder:
    """Return the family's decoder."""
    return AnomalyDecoder(config)


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
