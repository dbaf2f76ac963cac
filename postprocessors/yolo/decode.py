"""YOLO heads: one tensor of boxes and class scores.

Layout: `[B, 4 + C, N]` (anchor-free exports of Ultralytics) or its transpose `[B, N, 4 + C]`; cx, cy, w, h in pixels
of the network input, then C class scores that are probabilities already.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..class_rules import ClassRules
from ..contract import Array, DecodeError, DecoderConfig, DecodeValueError, shapes_of
from ..geometry import FloatArray, FrameGeometry, plausible
from ..results import Detections
from .nms import suppress

# What Ultralytics calls max_nms: beyond this many candidates only the best take part in suppression.
MAX_CANDIDATES = 30_000
# Half-precision sigmoids round up to just above 1.
SCORE_SLACK = 1e-3


class YoloDecoder:
    """Best class per anchor, threshold, class-wise NMS, back to source pixels."""

    def __init__(self, config: DecoderConfig) -> None:
        settings = config.settings
        self._classes = int(settings["num_classes"])
        self._rules = ClassRules(settings, config.class_names, self._classes)
        self._iou_threshold = float(settings["iou_threshold"])
        self._max_det = int(settings["max_det"])
        self._class_agnostic = bool(settings["class_agnostic"])
        self._adapter = config.adapter()

    def __call__(self, outputs: Sequence[Array], frames: Sequence[FrameGeometry]) -> list[Detections]:
        """Decode float32 `[B, 4 + C, N]` or `[B, N, 4 + C]`; one Detections per frame, empty when nothing is found.

        Raises:
            DecodeError: No output has that shape.
            DecodeValueError: Scores are not probabilities.
        """
        head = self._channels_first(self._head(outputs))
        if len(head) < len(frames):
            raise DecodeError(f"yolo: expected {len(frames)} images in the head, got {len(head)}")
        return [self._decode_image(image, frame) for image, frame in zip(head, frames)]

    def _head(self, outputs: Sequence[Array]) -> Array:
        named = self._adapter.get("boxes", outputs)
        if named is not None:
            return named
        heads = [output for output in outputs if output.ndim == 3]
        if len(heads) != 1:
            raise DecodeError(
                f"yolo: expected one output of rank 3, got {shapes_of(outputs)}; export with the decoded head only"
            )
        return heads[0]

    def _channels_first(self, head: Array) -> Array:
        """Return `[B, 4 + C, N]`; a square tensor is taken as channels first, as every current exporter has it."""
        channels = 4 + self._classes
        if head.ndim == 3 and head.shape[1] == channels:
            return head
        if head.ndim == 3 and head.shape[2] == channels:
            return head.transpose(0, 2, 1)
        raise DecodeError(
            f"yolo: expected {channels} channels (4 + {self._classes} classes) in [1, {channels}, N] or "
            f"[1, N, {channels}], got {list(head.shape)}; set detection.num_classes to what the model was trained on"
        )

    def _decode_image(self, head: Array, frame: FrameGeometry) -> Detections:
        scores, class_ids, anchors = self._candidates(head[4:])
        centres = head[:4, anchors].astype(np.float32)
        # A box without area would divide by a union of zero.
        usable = plausible(centres.T) & (centres[2:] > 0).all(axis=0)
        if not usable.all():
            scores, class_ids, centres = scores[usable], class_ids[usable], centres[:, usable]
        boxes = _corners(centres)
        order = np.argsort(-scores, kind="stable")[:MAX_CANDIDATES]
        kept = order[suppress(boxes[order], class_ids[order], self._iou_threshold, self._max_det, self._class_agnostic)]
        return self._rules.detections(frame.to_source(boxes[kept]), scores[kept], class_ids[kept])

    def _candidates(self, scores: Array) -> tuple[FloatArray, npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Return score, class and anchor of every anchor whose best class [C, N] reaches its threshold."""
        # max is several times faster than fmax, and NaN, which passes through it, is rare: only then look again.
        best = scores.max(axis=0)
        peak = best.max(initial=0)
        if not np.isfinite(peak):
            scores = np.where(np.isfinite(scores), scores, np.float32(-np.inf))
            best = scores.max(axis=0)
            peak = best.max(initial=0)
        if peak > 1 + SCORE_SLACK:
            raise DecodeValueError(
                f"yolo: class scores reach {peak:.3g}, expected 0..1; export the model with its sigmoid"
            )
        anchors = np.flatnonzero(best >= self._rules.lowest)
        class_ids = scores[:, anchors].argmax(axis=0)
        passed = self._rules.passes(best[anchors], class_ids)
        anchors = anchors[passed]
        return np.minimum(best[anchors], np.float32(1)), class_ids[passed], anchors


def create(config: DecoderConfig) -> YoloDecoder:
    """Return the family's decoder."""
    return YoloDecoder(config)


def _corners(centres: Array) -> FloatArray:
    """Return xyxy [n, 4] of cx, cy, w, h [4, n]."""
    middle, half = centres[:2], centres[2:] / 2
    return np.concatenate([middle - half, middle + half]).T
