"""Semantic segmentation: class scores or class indices per pixel to a class map at source size.

- Scores [B, C, H, W] (or [B, H, W, C]), logits or probabilities: interpolated, then the best class (upsample.py).
- One plane of scores [B, 1, H, W] or [B, H, W]: interpolated, then 1 where the score reaches `score_threshold`, else 0.
- Class indices [B, H, W] or [B, 1, H, W] of integers: the nearest cell's.

Softmax and sigmoid keep the order of scores, and vendors interpolate logits: an activation of `outputs.scores` is not
carried out; sigmoid says that one plane holds logits. Without it one plane must be probabilities; that is not guessed.

Payload: runs inside the server's python (3.9 or newer); needs numpy and opencv.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..class_rules import label_of
from ..contract import Array, DecodeError, DecoderConfig, DecodeValueError, shapes_of
from ..geometry import FrameGeometry
from ..maps import nearest_to_source
from ..results import ClassMap
from .upsample import best_classes

FloatArray = npt.NDArray[np.float32]

MAX_CLASSES = 256
# A square axis pair of so many may be a picture, [B, H, W, C].
LEAST_PICTURE = 32
# Rounding may leave 1.0000002.
RANGE_TOLERANCE = 1e-3


class SemanticSegmentationDecoder:
    """The class of every source pixel."""

    def __init__(self, config: DecoderConfig) -> None:
        settings = config.settings
        self._names = config.class_names
        self._output_names = config.output_names
        self._num_classes: int | None = settings["num_classes"]
        self._channels_first: bool | None = settings["channels_first"]
        activation = config.outputs.get("scores", {}).get("activation", "none")
        self._are_logits = activation == "sigmoid"
        self._limit = _limit(float(settings["score_threshold"]), self._are_logits, settings["compare"] == "greater")
        monotone = activation in ("sigmoid", "softmax")
        outputs = {
            meaning: {**source, "activation": "none"} if monotone else source
            for meaning, source in config.outputs.items()
        }
        self._adapter = replace(config, outputs=outputs).adapter()

    def __call__(self, outputs: Sequence[Array], frames: Sequence[FrameGeometry]) -> list[ClassMap]:
        """Decode the raw outputs (batch axis first); one ClassMap per frame.

        Raises:
            DecodeError: No output, or more than one, is a head; or it has other classes than `num_classes`, or too
                many for a byte; or the network's input does not show the whole image.
            DecodeValueError: A pixel has no score that is a number, an index is no class, or one plane of scores is
                not probabilities.
        """
        head = self._head(outputs)
        if len(head) != len(frames):
            raise DecodeError(f"semantic_segmentation: expected {len(frames)} images, got {shapes_of([head])}")
        for frame in frames:
            if min(frame.offset) < 0:
                raise DecodeError(
                    "semantic_segmentation: expected the whole image in the network's input, got it cropped; "
                    "set model_graph.stages[0].resize to stretch or letterbox"
                )
        if head.dtype.kind == "f":
            planes = self._planes(head)
            return [self._decode_scores(image, frame) for image, frame in zip(planes, frames)]
        return [self._decode_indices(image, frame) for image, frame in zip(_one_plane(head), frames)]

    def _head(self, outputs: Sequence[Array]) -> Array:
        """Return the scores (floats) or the class indices (integers) of the batch."""
        named = {meaning: self._adapter.get(meaning, outputs) for meaning in ("scores", "classes")}
        heads = [head for head in named.values() if head is not None]
        if not heads:
            heads = [output for output, name in zip(outputs, self._names_of(outputs)) if _is_head(output, name)]
        if len(heads) != 1 or heads[0].ndim not in (3, 4) or not heads[0].size:
            raise DecodeError(
                "semantic_segmentation: expected one output of class scores [B, C, H, W] or class indices [B, H, W], "
                f"got {shapes_of(heads or outputs)}; name it in the manifest's outputs.scores or outputs.classes"
            )
        if named["classes"] is not None:
            return _whole_numbers(heads[0])
        return heads[0] if heads[0].dtype.kind in "fiub" else heads[0].astype(np.float32)

    def _names_of(self, outputs: Sequence[Array]) -> Sequence[str]:
        return self._output_names if len(self._output_names) == len(outputs) else [""] * len(outputs)

    def _planes(self, head: Array) -> FloatArray:
        """Return the class scores, float32 [B, C, H, W]."""
        planes = head[:, None] if head.ndim == 3 else head
        if head.ndim == 4 and self._are_last(head):
            planes = np.moveaxis(head, -1, 1)
        classes = planes.shape[1]
        is_fit = self._num_classes in (None, classes) or (classes == 1 and self._is_binary())
        if classes > MAX_CLASSES or not is_fit:
            expected = f"{self._num_classes} classes" if self._num_classes else f"at most {MAX_CLASSES} classes"
            raise DecodeError(
                f"semantic_segmentation: expected {expected}, got {classes} in {shapes_of([head])}; correct "
                "detection.num_classes, or set detection.channels_first to false if classes are the last axis"
            )
        return planes.astype(np.float32, copy=False)

    def _are_last(self, head: Array) -> bool:
        """Return whether classes are the last axis of [B, ?, ?, ?]."""
        if self._channels_first is None:
            _, first, second, last = head.shape
            if self._num_classes is None and first == second > last and first >= LEAST_PICTURE:
                raise DecodeError(
                    "semantic_segmentation: expected detection.num_classes or channels_first to tell classes from "
                    f"pixels, got nothing for {list(head.shape)}; set one of them"
                )
            return head.shape[1] != self._num_classes == head.shape[-1]
        return not self._channels_first

    def _is_binary(self) -> bool:
        return self._num_classes in (1, 2)

    def _decode_scores(self, planes: FloatArray, frame: FrameGeometry) -> ClassMap:
        if len(planes) == 1:
            self._check_plane(planes[0])
            # A constant that a plane must exceed is a class of its own, and interpolation leaves it as it is.
            planes = np.stack([np.full_like(planes[0], self._limit), planes[0]])
            return ClassMap(best_classes(planes, frame), self._binary_names())
        lost = np.isnan(planes[0])
        if lost.any() and np.isnan(planes[:, lost]).all(axis=0).any():
            raise DecodeValueError(
                "semantic_segmentation: expected a score for every pixel, got none for some; the engine's numbers "
                "overflowed"
            )
        return ClassMap(best_classes(planes, frame), self._labels(len(planes)))

    def _check_plane(self, plane: FloatArray) -> None:
        lowest, highest = float(plane.min()), float(plane.max())
        if math.isnan(lowest):
            raise DecodeValueError(
                "semantic_segmentation: expected a score for every pixel, got NaN for some; the engine's numbers "
                "overflowed"
            )
        if not self._are_logits and (lowest < -RANGE_TOLERANCE or highest > 1 + RANGE_TOLERANCE):
            raise DecodeValueError(
                f"semantic_segmentation: expected probabilities in one plane of scores, got {lowest:.4g} to "
                f"{highest:.4g}; set outputs.scores.activation to sigmoid if they are logits, or name the output "
                "outputs.classes if they are class indices"
            )

    def _decode_indices(self, indices: Array, frame: FrameGeometry) -> ClassMap:
        lowest, highest = int(indices.min()), int(indices.max())
        limit = self._num_classes or MAX_CLASSES
        if self._is_binary():
            limit = 2
        if lowest < 0 or highest >= min(limit, MAX_CLASSES):
            raise DecodeValueError(
                f"semantic_segmentation: expected class indices from 0 to {min(limit, MAX_CLASSES) - 1}, "
                f"got {lowest} to {highest}"
            )
        if self._is_binary():
            return ClassMap(nearest_to_source(indices, frame), self._binary_names())
        columns = self._num_classes or max(len(self._names), highest + 1)
        return ClassMap(nearest_to_source(indices, frame), self._labels(columns))

    def _labels(self, columns: int) -> tuple[str, ...]:
        return tuple(label_of(self._names, class_id) for class_id in range(columns))

    def _binary_names(self) -> tuple[str, ...]:
        # One name is the object's; nothing names what is not it.
        return ("background", *self._names) if len(self._names) == 1 else self._labels(2)


def create(config: DecoderConfig) -> SemanticSegmentationDecoder:
    """Return the family's decoder."""
    return SemanticSegmentationDecoder(config)


def _limit(threshold: float, are_logits: bool, strict: bool) -> np.float32:
    """Return what a plane's score must exceed."""
    if are_logits:
        threshold = math.log(threshold / (1 - threshold)) if 0 < threshold < 1 else math.copysign(1e30, threshold - 0.5)
    limit = np.float32(threshold)
    return limit if strict else np.nextafter(limit, np.float32(-np.inf))


def _is_head(output: Array, name: str) -> bool:
    # torchvision's models have a second head, which only training needs.
    is_auxiliary = "aux" in name.lower()
    return output.ndim in (3, 4) and output.dtype.kind in "fiub" and not is_auxiliary


def _whole_numbers(head: Array) -> Array:
    """Return class indices as integers."""
    if head.dtype.kind != "f":
        return head
    if not np.isfinite(head).all() or (np.abs(head) > MAX_CLASSES).any() or (head != np.rint(head)).any():
        raise DecodeValueError("semantic_segmentation: expected whole numbers as class indices, got others")
    return head.astype(np.int32)


def _one_plane(head: Array) -> Array:
    """Return class indices, [B, H, W]."""
    if head.ndim == 3:
        return head
    axis = 1 if head.shape[1] == 1 else -1
    if head.shape[axis] != 1:
        raise DecodeError(
            f"semantic_segmentation: expected class indices [B, H, W] or [B, 1, H, W], got {shapes_of([head])}; "
            "set the model's last step to argmax, or give its scores as floats"
        )
    return head.squeeze(axis)
