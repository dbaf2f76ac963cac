"""DETR and what came of it: DETR, YOLOS, Conditional and Deformable DETR, RT-DETR v1 to v4, D-FINE, DEIM; no NMS.

layouts.py says which outputs are what. Scores per query and class become detections by the flat top-k over query x
class of Deformable DETR, or by each query's best class as DETR has it; rows that the graph has chosen stay as they are.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .. import queries
from ..adapter import sigmoid, softmax
from ..class_rules import ClassRules
from ..contract import Array, DecodeError, DecoderConfig, DecodeValueError
from ..geometry import FloatArray, FrameGeometry, plausible
from ..results import Detections
from .layouts import FAMILY, Grid, Reader, Rows

# Half-precision graphs round a probability of 1 up to this much.
SCORE_SLACK = 0.01
# Boxes may reach beyond the image, but most of a graph's boxes are never twice as large.
LARGEST_FRACTION = 2


class DetrDecoder:
    """Scores, selection, thresholds, boxes to source pixels."""

    def __init__(self, config: DecoderConfig) -> None:
        settings = config.settings
        self._config = config
        self._read = Reader(config)
        self._classes: int | None = settings.get("num_classes")
        self._background: int | None = settings.get("background_class")
        # What the manifest's `outputs` says that the graph lacks is applied once, not twice.
        activation = config.outputs.get("logits", {}).get("activation", "none")
        self._activated = activation != "none"
        self._use_softmax = bool(settings["use_softmax"]) or activation == "softmax"
        self._multi_label: bool | None = settings.get("multi_label")
        self._top_k: int | None = settings.get("top_k")
        self._max_det = int(settings["max_det"])
        self._normalized: bool | None = settings.get("boxes_normalized")
        self._box_format: str | None = settings.get("box_format")
        self._columns: dict[int, tuple[npt.NDArray[np.intp], ClassRules]] = {}
        self._row_rules: ClassRules | None = None

    def __call__(self, outputs: Sequence[Array], frames: Sequence[FrameGeometry]) -> list[Detections]:
        """Decode one of the layouts of layouts.py; one Detections per frame, empty when none is found.

        Raises:
            DecodeError: The outputs are none of them, or their class columns are not num_classes or one more.
            DecodeValueError: Scores that the graph gives are not probabilities.
        """
        head = self._read(outputs)
        queries.check_batch(FAMILY, head.boxes, len(frames))
        if isinstance(head, Rows):
            return [self._decode_rows(head, index, frame) for index, frame in enumerate(frames)]
        queries.check_columns(FAMILY, head.values.shape, self._classes)
        return [self._decode_grid(head, index, frame) for index, frame in enumerate(frames)]

    def _decode_grid(self, head: Grid, index: int, frame: FrameGeometry) -> Detections:
        boxes = head.boxes[index]
        kept, rules = self._columns_of(head)
        scores = self._scores(head, index)
        if len(kept) < scores.shape[1]:
            scores = scores[:, kept]
        usable = plausible(boxes)
        scores[~usable] = -1
        query, column = self._chosen(scores, self._takes_several(head), rules.lowest)
        in_source = self._to_source(boxes, usable, query, self._box_format or "cxcywh", frame)
        return self._detections(in_source, scores[query, column], kept[column], rules)

    def _chosen(
        self, scores: FloatArray, several: bool, lowest: np.float32
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Return query and column of the best scores [Q, C], best first."""
        limit = len(scores) if self._top_k is None else self._top_k
        if several:
            return np.divmod(queries.best_pairs(scores.ravel(), limit, lowest), scores.shape[1])
        # argmax takes NaN for the largest.
        columns = np.where(scores >= 0, scores, np.float32(-1)).argmax(axis=1)
        query = queries.best_pairs(scores[np.arange(len(columns)), columns], limit, lowest)
        return query, columns[query]

    def _decode_rows(self, head: Rows, index: int, frame: FrameGeometry) -> Detections:
        boxes, scores, class_ids = head.boxes[index], head.scores[index], head.class_ids[index]
        rules = self._rules_of_rows()
        scores = _probabilities(scores)
        usable = plausible(boxes)
        real = (class_ids >= 0) & (class_ids < len(rules.names)) & (class_ids == np.rint(class_ids))
        if self._background is not None:
            # Counted from the end it speaks of the columns that the graph had, and has already left out.
            real &= class_ids != self._background
        scores[~(usable & real)] = -1
        row = queries.best_pairs(scores, len(scores), rules.lowest)
        in_source = self._to_source(boxes, usable, row, self._box_format or head.box_format, frame)
        return self._detections(in_source, scores[row], class_ids[row].astype(np.intp), rules)

    def _detections(
        self, in_source: FloatArray, scores: FloatArray, class_ids: npt.NDArray[np.intp], rules: ClassRules
    ) -> Detections:
        passed = np.flatnonzero(rules.passes(scores, class_ids))[: self._max_det]
        return rules.detections(in_source[passed], scores[passed], class_ids[passed])

    def _scores(self, head: Grid, index: int) -> FloatArray:
        """Return probabilities [Q, C] that are free to be changed."""
        values = head.values[index]
        if self._activated or not head.are_logits:
            return _probabilities(values)
        queries.refuse_probabilities(FAMILY, values, "name the outputs in outputs.boxes and outputs.scores")
        # Softmax takes the background into its sum; it is dropped afterwards, before it can take top-k places.
        return softmax(values) if self._use_softmax else sigmoid(values)

    def _takes_several(self, head: Grid) -> bool:
        """Return whether a query may give several classes: where they do not exclude each other, and it is not told."""
        if self._multi_label is not None:
            return self._multi_label
        return head.several and not (head.are_logits and self._use_softmax)

    def _rules_of_rows(self) -> ClassRules:
        if self._row_rules is None:
            names = self._config.class_names
            classes = self._classes or len(names)
            if not classes:
                raise DecodeError(
                    f"{FAMILY}: expected detection.num_classes for rows that the graph chose, got nothing"
                )
            self._row_rules = ClassRules(self._config.settings, names, classes)
        return self._row_rules

    def _columns_of(self, head: Grid) -> tuple[npt.NDArray[np.intp], ClassRules]:
        """Return the columns that may be reported, and names and thresholds by column."""
        columns = head.values.shape[2]
        if columns not in self._columns:
            background = self._background
            if background is None and head.are_logits and self._use_softmax and columns != self._classes:
                # Under softmax something must stand for "no object": the last column, as DETR has it.
                background = -1
            kept = queries.kept_columns(FAMILY, columns, background)
            names = queries.column_names(self._config.class_names, columns, background)
            self._columns[columns] = kept, ClassRules(self._config.settings, names, columns)
        return self._columns[columns]

    def _to_source(
        self,
        boxes: Array,
        usable: npt.NDArray[np.bool_],
        chosen: npt.NDArray[np.intp],
        box_format: str,
        frame: FrameGeometry,
    ) -> FloatArray:
        """Return the `chosen` of an image's boxes [Q, 4] as clipped source-pixel xyxy."""
        normalized = self._normalized
        if normalized is None:
            normalized = _are_fractions(boxes[usable], box_format)
        wanted = boxes[chosen].astype(np.float32)
        if normalized:
            height, width = frame.network
            wanted = wanted * np.array([width, height, width, height], np.float32)
        return frame.to_source(queries.corners(wanted) if box_format == "cxcywh" else wanted)


def create(config: DecoderConfig) -> DetrDecoder:
    """Return the family's decoder."""
    return DetrDecoder(config)


def _probabilities(values: Array) -> FloatArray:
    """Return float32 scores, 1 at most, that are free to be changed; what is not a finite number counts as -1.

    Raises:
        DecodeValueError: They reach beyond 1.
    """
    scores = np.where(np.isfinite(values), values, -1).astype(np.float32)
    peak = scores.max(initial=0)
    if peak > 1 + SCORE_SLACK:
        raise DecodeValueError(
            f"{FAMILY}: scores reach {peak:.3g}, expected 0..1; export the model with its sigmoid, or name the output "
            "in outputs with the activation that it lacks"
        )
    return np.minimum(scores, np.float32(1))


def _are_fractions(boxes: Array, box_format: str) -> bool:
    """Return whether boxes [n, 4] are fractions of the network's input: most of them, for a few may be nonsense.

    What has no area is padding, and tells nothing.
    """
    low, high = boxes[:, :2], boxes[:, 2:]
    boxes = boxes[(high > (0 if box_format == "cxcywh" else low)).all(axis=1)]
    return not len(boxes) or bool((np.abs(boxes).max(axis=1) <= LARGEST_FRACTION).mean() >= 0.5)
