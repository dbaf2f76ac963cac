"""RF-DETR: a fixed set of queries, each with one box, one logit per class and, for segmentation, one mask; no NMS.

Layout: boxes `[B, Q, 4]` (cx, cy, w, h, fractions of the image) and logits `[B, Q, C]`, in either order, and for
instance segmentation mask logits `[B, Q, h, w]`. Selection is the flat top-k over query x class of RF-DETR's
post-processing: one query may give several classes.

Payload: runs inside the server's python (3.9 or newer); needs numpy and opencv.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from .. import queries
from ..adapter import sigmoid, softmax
from ..class_rules import ClassRules
from ..contract import Array, DecodeError, DecoderConfig, shapes_of
from ..geometry import FloatArray, FrameGeometry, plausible
from ..results import Detections
from .masks import instance_masks

FAMILY = "rf_detr"
SEGMENTATION = "instance_segmentation"
PROBABILITIES = (
    "export the model without its sigmoid, or set detection.layout to detr and name the outputs in outputs.boxes and "
    "outputs.scores"
)


@dataclass(frozen=True)
class _Columns:
    """What is made of class columns, once their number is known.

    Attributes:
        kept: intp [k], the columns that may be reported.
        rules: Names and thresholds by column.
    """

    kept: npt.NDArray[np.intp]
    rules: ClassRules


class RfDetrDecoder:
    """Sigmoid (or softmax), background dropped, flat top-k, threshold, boxes and masks to source pixels."""

    def __init__(self, config: DecoderConfig) -> None:
        settings = config.settings
        self._config = config
        self._classes: int | None = settings.get("num_classes")
        self._background: int | None = settings.get("background_class")
        self._use_softmax = bool(settings["use_softmax"])
        # What the manifest's `outputs` says that the graph lacks is applied once, not twice.
        self._activated = config.outputs.get("logits", {}).get("activation", "none") != "none"
        self._top_k: int | None = settings.get("top_k")
        self._max_det = int(settings["max_det"])
        self._adapter = config.adapter()
        if len({"boxes", "logits"} & set(config.outputs)) == 1:
            raise DecodeError(f"outputs: expected both boxes and logits, got only {', '.join(config.outputs)}")
        self._columns: dict[int, _Columns] = {}

    def __call__(self, outputs: Sequence[Array], frames: Sequence[FrameGeometry]) -> list[Detections]:
        """Decode float32 boxes `[B, Q, 4]` and logits `[B, Q, C]`; one Detections per frame, empty when none is found.

        Raises:
            DecodeError: The outputs are not such a pair (with masks `[B, Q, h, w]` for instance segmentation), or C is
                neither num_classes nor one more.
        """
        boxes, logits = self._pair(outputs)
        queries.check_columns(FAMILY, logits.shape, self._classes)
        queries.check_batch(FAMILY, boxes, len(frames))
        columns = self._columns_of(logits.shape[2])
        planes = self._planes(outputs, logits.shape)
        return [
            self._decode_image(boxes[index], logits[index], None if planes is None else planes[index], columns, frame)
            for index, frame in enumerate(frames)
        ]

    def _pair(self, outputs: Sequence[Array]) -> tuple[Array, Array]:
        """Return (boxes, logits)."""
        boxes, logits = self._adapter.get("boxes", outputs), self._adapter.get("logits", outputs)
        if boxes is None or logits is None:
            pair = queries.find_pair(outputs, self._config.output_names)
            if pair is None:
                is_single = len(outputs) == 1 and outputs[0].ndim == 3 and outputs[0].shape[2] > 4
                hint = "; an export with one output is layout detr" if is_single else ""
                raise DecodeError(f"{FAMILY}: expected {queries.PAIR}, got {shapes_of(outputs)}{hint}")
            boxes, logits = pair
        queries.check_pair(FAMILY, boxes, logits)
        return boxes, logits

    def _planes(self, outputs: Sequence[Array], logits: Sequence[int]) -> Array | None:
        """Return the mask logits `[B, Q, h, w]`; None where the task has none."""
        if self._config.task != SEGMENTATION:
            return None
        named = self._adapter.get("masks", outputs)
        planes = [output for output in outputs if output.ndim == 4] if named is None else [named]
        if (
            len(planes) != 1
            or planes[0].ndim != 4
            or planes[0].shape[:2] != tuple(logits[:2])
            or 0 in planes[0].shape[2:]
        ):
            raise DecodeError(
                f"{FAMILY}: expected masks [B, Q, h, w] beside {queries.PAIR} for instance segmentation, "
                f"got {shapes_of(outputs)}"
            )
        return planes[0]

    def _columns_of(self, columns: int) -> _Columns:
        if columns not in self._columns:
            kept = queries.kept_columns(FAMILY, columns, self._background)
            names = queries.column_names(self._config.class_names, columns, self._background)
            self._columns[columns] = _Columns(kept, ClassRules(self._config.settings, names, columns))
        return self._columns[columns]

    def _decode_image(
        self, boxes: Array, logits: Array, planes: Array | None, columns: _Columns, frame: FrameGeometry
    ) -> Detections:
        kept, rules = columns.kept, columns.rules
        scores = self._scores(logits)
        if len(kept) < scores.shape[1]:
            scores = scores[:, kept]
        scores[~plausible(boxes)] = -1
        flat = scores.ravel()
        chosen = queries.best_pairs(flat, len(boxes) if self._top_k is None else self._top_k, rules.lowest)
        class_ids = kept[chosen % len(kept)]
        passed = rules.passes(flat[chosen], class_ids)
        chosen, class_ids = chosen[passed][: self._max_det], class_ids[passed][: self._max_det]
        query = chosen // len(kept)
        in_source = _to_source(boxes[query], frame)
        found = rules.detections(in_source, flat[chosen], class_ids)
        if planes is None:
            return found
        # The mask of a box that was dropped, because clipping left it no area, goes with it.
        has_area = (in_source[:, 2:] > in_source[:, :2]).all(axis=1)
        return replace(found, masks=instance_masks(planes, query[has_area], frame))

    def _scores(self, logits: Array) -> FloatArray:
        """Return probabilities [Q, C] of one image, free to be changed."""
        if self._activated:
            return logits.astype(np.float32)
        queries.refuse_probabilities(FAMILY, logits, PROBABILITIES)
        # Softmax takes the background into its sum; it is dropped afterwards, before it can take top-k places.
        return softmax(logits) if self._use_softmax else sigmoid(logits)


def create(config: DecoderConfig) -> RfDetrDecoder:
    """Return the family's decoder."""
    return RfDetrDecoder(config)


def _to_source(boxes: Array, frame: FrameGeometry) -> FloatArray:
    """Return clipped source-pixel xyxy [n, 4] of cx, cy, w, h [n, 4] as fractions of the network input."""
    height, width = frame.network
    return frame.to_source(queries.corners(boxes * np.array([width, height, width, height], np.float32)))
