"""Anomaly heads: class probabilities, a score, an anomaly map, pixel classes; whichever of them the graph has.

heads.py says which output is what. The verdict is the one of the capture world: normal if
round(score, 4) < round(threshold, 4) in Python floats. Distances are scores too (PaDiM, PatchCore): they have any
scale, and confidence is the score cut off to 0..1; with `score_range`, the lowest and highest score that was seen in
validation, they are scaled as anomalib does it: threshold at 0.5, cut off to 0..1.

Payload: runs inside the server's python (3.9 or newer); needs numpy and opencv.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..contract import Array, DecodeError, DecoderConfig, DecodeValueError, shapes_of
from ..geometry import FrameGeometry
from ..maps import nearest_to_source
from ..results import AnomalyResult
from .heads import HeadFinder

ClassMask = npt.NDArray[np.uint8]

# Rounding may leave 1.0000002.
RANGE_TOLERANCE = 1e-3
# Half precision and 8-bit engines miss the total by so much.
TOTAL_TOLERANCE = 0.02
MAX_PIXEL_CLASSES = 256
_LARGEST = float(np.finfo(np.float32).max)


class AnomalyDecoder:
    """Score, verdict, the network's map and, with pixel classes, a class mask at source size."""

    def __init__(self, config: DecoderConfig) -> None:
        settings = config.settings
        self._threshold = float(settings["threshold"])
        self._pixel_threshold: float | None = settings.get("pixel_threshold")
        self._score_range: list[float] | None = settings.get("score_range")
        self._normal_ids: list[int] = list(settings["class_normal_ids"])
        self._pixel_names: tuple[str, ...] = tuple(settings["pixel_class_names"])
        self._find_heads = HeadFinder(config.adapter(), config.output_names, len(self._pixel_names))

    def __call__(self, outputs: Sequence[Array], frames: Sequence[FrameGeometry]) -> list[AnomalyResult]:
        """Decode the raw outputs (batch axis first); one AnomalyResult per frame.

        Raises:
            DecodeError: No output, or more than one, can give a score; a class head has no class that is not normal;
                pixel classes are more than the outputs tell apart.
            DecodeValueError: The score is not finite, class scores are no probabilities, or pixels have no class.
        """
        heads = self._find_heads(outputs, len(frames))
        for head in heads.values():
            if len(head) != len(frames):
                raise DecodeError(f"anomaly: expected {len(frames)} images, got {shapes_of(list(heads.values()))}")
        return [
            self._decode_image({meaning: head[index] for meaning, head in heads.items()}, frame)
            for index, frame in enumerate(frames)
        ]

    def _decode_image(self, image: dict[str, Array], frame: FrameGeometry) -> AnomalyResult:
        score = self._score(image)
        # Rounded as Python floats: NumPy's float32 rounding differs between its versions.
        is_anomalous = not round(score, 4) < round(self._threshold, 4)
        if self._score_range is not None:
            lowest, highest = self._score_range
            score = min(max((score - self._threshold) / (highest - lowest) + 0.5, 0.0), 1.0)
        certainty = min(max(score, 0.0), 1.0)
        return AnomalyResult(
            score=score,
            is_anomalous=is_anomalous,
            confidence=certainty if is_anomalous else 1 - certainty,
            class_mask=self._class_mask(image, frame),
            class_names=self._pixel_names,
            anomaly_map=_finite_map(image["map"]) if "map" in image else None,
        )

    def _score(self, image: dict[str, Array]) -> float:
        if "classes" in image:
            return self._class_score(image["classes"])
        # Without a score, the highest value of the map is one.
        value = float(image["score" if "score" in image else "map"].max())
        # Not only inf: a result's score is a float32.
        if not abs(value) <= _LARGEST:
            raise DecodeValueError(f"anomaly: expected a finite score, got {value}; the engine's numbers overflowed")
        return value

    def _class_score(self, classes: Array) -> float:
        """Return the probability of the classes that are not normal."""
        if any(class_id >= len(classes) for class_id in self._normal_ids) or len(self._normal_ids) >= len(classes):
            raise DecodeError(
                f"anomaly: class_normal_ids {self._normal_ids} do not fit a class head of {len(classes)} classes"
            )
        lowest, highest = float(classes.min()), float(classes.max())
        if not (np.isfinite(lowest) and np.isfinite(highest)):
            raise DecodeValueError("anomaly: expected a finite score, got nan; the engine's numbers overflowed")
        if lowest < -RANGE_TOLERANCE or highest > 1 + RANGE_TOLERANCE:
            raise DecodeValueError(
                f"anomaly: expected class probabilities, 0 to 1, got {lowest:.4g} to {highest:.4g}; set "
                "outputs.classes.activation to softmax if they are logits"
            )
        wide = classes.astype(np.float64)
        anomalous = np.delete(wide, self._normal_ids)
        if len(anomalous) > 1 and abs(wide.sum() - 1) > TOTAL_TOLERANCE:
            # Only of classes that exclude each other is the sum a probability.
            raise DecodeValueError(
                f"anomaly: expected class probabilities that are 1 in total, got {wide.sum():.4g}; set "
                "outputs.classes.activation to softmax if they are logits, or make all classes but one normal"
            )
        return min(max(float(anomalous.sum()), 0.0), 1.0)

    def _class_mask(self, image: dict[str, Array], frame: FrameGeometry) -> ClassMask | None:
        if not self._pixel_names:
            return None
        pixels = image.get("pixel_classes")
        if pixels is not None and pixels.ndim == 3 and len(pixels) > 1:
            pixels = self._planes(pixels)
        has_planes = pixels is not None and pixels.ndim == 3 and len(pixels) > 1
        # A graph's own mask stands for its own threshold; one that the manifest states wins.
        if "map" in image and not has_planes and (pixels is None or self._pixel_threshold is not None):
            pixels = image["map"] >= np.float32(
                self._threshold if self._pixel_threshold is None else self._pixel_threshold
            )
        if pixels is None:
            return None
        if pixels.dtype == np.bool_ and not has_planes and len(self._pixel_names) != 2:
            raise DecodeError(
                "anomaly: expected 2 names in pixel_level_classes (background first), because the outputs tell normal "
                f"and anomalous pixels apart, no classes of them, got {len(self._pixel_names)} names; correct them"
            )
        return nearest_to_source(_best_planes(pixels) if has_planes else _indices(pixels), frame)

    def _planes(self, pixels: Array) -> Array:
        """Return pixel classes [C, h, w]; of [h, w, C] where only the last axis is as long as the package's names."""
        names = len(self._pixel_names)
        planes = np.moveaxis(pixels, -1, 0) if pixels.shape[0] != names == pixels.shape[-1] else pixels
        if len(planes) > MAX_PIXEL_CLASSES:
            raise DecodeError(
                f"anomaly: expected at most {MAX_PIXEL_CLASSES} pixel classes, got {len(planes)} in "
                f"{list(pixels.shape)}; name the output in the manifest's outputs.pixel_classes"
            )
        return planes


def create(config: DecoderConfig) -> AnomalyDecoder:
    """Return the family's decoder."""
    return AnomalyDecoder(config)


def _best_planes(planes: Array) -> npt.NDArray[np.intp]:
    """Return the plane with the highest score per pixel of [C, h, w]; NaN counts as minus infinity."""
    lost = np.isnan(planes) if planes.dtype.kind == "f" else np.zeros(1, bool)
    if not lost.any():
        return planes.argmax(axis=0)
    if lost.all(axis=0).any():
        raise DecodeValueError(
            "anomaly: expected a score for every pixel, got NaN for some; the engine's numbers overflowed"
        )
    return np.where(lost, -np.inf, planes).argmax(axis=0)


def _indices(pixels: Array) -> Array:
    """Return class indices [h, w] of [h, w] or [1, h, w], checked to fit a byte."""
    indices = pixels.reshape(pixels.shape[-2:])
    if indices.dtype == np.bool_:
        return indices
    lowest, highest = indices.min(), indices.max()
    if not (lowest >= 0 and highest <= 255) or (indices.dtype.kind == "f" and (indices != np.rint(indices)).any()):
        raise DecodeValueError(
            f"anomaly: expected class indices from 0 to 255 as pixel_classes, got {lowest:.6g} to {highest:.6g}"
        )
    return indices


def _finite_map(values: Array) -> npt.NDArray[np.float32]:
    """Return the map, float32 [h, w]; NaN is 0, infinities are the largest numbers."""
    with np.errstate(over="ignore"):
        plane = values.reshape(values.shape[-2:]).astype(np.float32, copy=False)
    return np.nan_to_num(plane, nan=0.0)
