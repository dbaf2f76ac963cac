"""RF-DETR and alike: a fixed set of queries, each with one box and one logit per class; no NMS.

Layout: boxes `[B, Q, 4]` (cx, cy, w, h, fractions of the image) and logits `[B, Q, C]`, in either order.
Selection is the flat top-k over query x class of RF-DETR's and Deformable DETR's post-processing: one query may give
several classes.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..adapter import sigmoid, softmax
from ..class_rules import ClassRules
from ..contract import Array, DecodeError, DecoderConfig, shapes_of
from ..geometry import FloatArray, FrameGeometry, plausible
from ..results import Detections

PAIR = "boxes [B, Q, 4] and logits [B, Q, C]"
BOX_WORDS = ("box", "dets")
LOGIT_WORDS = ("logit", "label", "score", "class")


class RfDetrDecoder:
    """Sigmoid (or softmax), background dropped, flat top-k, threshold, boxes to source pixels."""

    def __init__(self, config: DecoderConfig) -> None:
        settings = config.settings
        self._config = config
        self._classes: int | None = settings.get("num_classes")
        self._background: int | None = settings.get("background_class")
        self._use_softmax = bool(settings["use_softmax"])
        self._limit = min(int(settings["top_k"]), int(settings["max_det"]))
        self._top_k = int(settings["top_k"])
        self._adapter = config.adapter()
        if len({"boxes", "logits"} & set(config.outputs)) == 1:
            raise DecodeError(f"outputs: expected both boxes and logits, got only {', '.join(config.outputs)}")
        self._rules: ClassRules | None = None

    def __call__(self, outputs: Sequence[Array], frames: Sequence[FrameGeometry]) -> list[Detections]:
        """Decode float32 boxes `[B, Q, 4]` and logits `[B, Q, C]`; one Detections per frame, empty when none is found.

        Raises:
            DecodeError: The outputs are not such a pair, or C is neither num_classes nor one more.
        """
        boxes, logits = self._pair(outputs)
        columns = logits.shape[2]
        if self._classes is not None and columns not in (self._classes, self._classes + 1):
            raise DecodeError(
                f"rf_detr: expected {self._classes} or {self._classes + 1} class columns for "
                f"num_classes={self._classes}, got {columns} in {list(logits.shape)}"
            )
        if len(boxes) < len(frames):
            raise DecodeError(f"rf_detr: expected {len(frames)} images in the outputs, got {len(boxes)}")
        kept = self._kept_columns(columns)
        rules = self._rules_for(columns)
        return [self._decode_image(b, x, kept, rules, frame) for b, x, frame in zip(boxes, logits, frames)]

    def _pair(self, outputs: Sequence[Array]) -> tuple[Array, Array]:
        """Return (boxes, logits)."""
        boxes, logits = self._adapter.get("boxes", outputs), self._adapter.get("logits", outputs)
        if boxes is None or logits is None:
            names = self._config.output_names
            named = [(names[i] if i < len(names) else "", x) for i, x in enumerate(outputs) if x.ndim == 3]
            if len(named) != 2:
                raise DecodeError(f"rf_detr: expected {PAIR}, got {shapes_of(outputs)}")
            boxes, logits = _identify(named[0], named[1])
        if boxes.ndim != 3 or logits.ndim != 3 or boxes.shape != (*logits.shape[:2], 4):
            raise DecodeError(f"rf_detr: expected {PAIR}, got {shapes_of([boxes, logits])}")
        return boxes, logits

    def _kept_columns(self, columns: int) -> list[int]:
        """Return the class columns that may be reported: all but the background."""
        background = self._background
        if background is not None and not -columns <= background < columns:
            raise DecodeError(f"rf_detr: expected background_class within {columns} class columns, got {background}")
        kept = [column for column in range(columns) if background is None or column != background % columns]
        if not kept:
            raise DecodeError(f"rf_detr: expected class columns besides the background, got {columns} in all")
        return kept

    def _rules_for(self, columns: int) -> ClassRules:
        if self._rules is None:
            names = self._config.class_names
            if self._background == 0 and len(names) == columns - 1:
                # Names of the foreground only: column 0 is the background, ids stay column ids.
                names = ("background", *names)
            self._rules = ClassRules(self._config.settings, names, columns)
        return self._rules

    def _decode_image(
        self, boxes: Array, logits: Array, kept: list[int], rules: ClassRules, frame: FrameGeometry
    ) -> Detections:
        # Softmax takes the background into its sum; it is dropped afterwards, before it can take top-k places.
        scores = softmax(logits) if self._use_softmax else sigmoid(logits)
        if len(kept) < scores.shape[1]:
            scores = scores[:, kept]
        scores[~plausible(boxes)] = -1
        flat = scores.ravel()
        chosen = np.flatnonzero(flat >= rules.lowest)
        if len(chosen) > self._top_k:
            # A full sort of thousands costs a millisecond; what ties with the last place stays in until the sort.
            chosen = chosen[flat[chosen] >= np.partition(flat[chosen], -self._top_k)[-self._top_k]]
        # Ties go to the lower index, as a stable sort over the flattened scores has it.
        chosen = chosen[np.argsort(-flat[chosen], kind="stable")][: self._top_k]
        class_ids = np.asarray(kept, np.intp)[chosen % len(kept)]
        passed = rules.passes(flat[chosen], class_ids)
        chosen, class_ids = chosen[passed][: self._limit], class_ids[passed][: self._limit]
        return rules.detections(_to_source(boxes[chosen // len(kept)], frame), flat[chosen], class_ids)


def create(config: DecoderConfig) -> RfDetrDecoder:
    """Return the family's decoder."""
    return RfDetrDecoder(config)


def _identify(first: tuple[str, Array], second: tuple[str, Array]) -> tuple[Array, Array]:
    """Return (boxes, logits): by last axis, by name, by values, and where these tell nothing, boxes first.

    Boxes first is RF-DETR's own export order.
    """
    for (_, boxes), (_, logits) in ((first, second), (second, first)):
        if boxes.shape[2] == 4 and logits.shape[2] != 4:
            return boxes, logits
    for (box_name, boxes), (logit_name, logits) in ((first, second), (second, first)):
        if _speaks_of(box_name, BOX_WORDS) and _speaks_of(logit_name, LOGIT_WORDS):
            return boxes, logits
    if _share_of_fractions(second[1]) > _share_of_fractions(first[1]):
        return second[1], first[1]
    return first[1], second[1]


def _speaks_of(name: str, words: Sequence[str]) -> bool:
    return any(word in name.lower() for word in words)


def _share_of_fractions(tensor: Array) -> float:
    """Return how many of the values could be fractions of the image: nearly all of the boxes', few of the logits'."""
    return float(((tensor >= 0) & (tensor <= 1)).mean()) if tensor.size else 0.0


def _to_source(boxes: Array, frame: FrameGeometry) -> FloatArray:
    """Return clipped source-pixel xyxy [n, 4] of cx, cy, w, h [n, 4] as fractions of the network input."""
    height, width = frame.network
    size = np.array([width, height], np.float32)
    middle, half = boxes[:, :2] * size, boxes[:, 2:] * size / 2
    return frame.to_source(np.concatenate([middle - half, middle + half], axis=1).astype(np.float32))
