"""Which of a DETR export's outputs is what: three layouts, told by shapes, then names, then values.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

import numpy as np

from .. import queries
from ..contract import Array, DecodeError, DecoderConfig, shapes_of

FAMILY = "detr"
LABEL_WORDS = ("label", "class")
SCORE_WORDS = ("score", "conf", "prob")
EXPECTED = (
    f"{queries.PAIR}, one output [B, K, 6] (cx, cy, w, h, score, class) or [B, Q, 4 + C] (box and class scores), "
    "or boxes [B, K, 4] with scores and labels [B, K]"
)
# What the manifest's `outputs` may name together; boxes alone are the one output of Ultralytics' exports.
MEANINGS = (
    frozenset({"boxes", "logits"}),
    frozenset({"boxes", "scores"}),
    frozenset({"boxes", "scores", "classes"}),
    frozenset({"boxes"}),
)


@dataclass(frozen=True)
class Grid:
    """A number per query and class.

    Attributes:
        boxes: [B, Q, 4] cx, cy, w, h.
        values: [B, Q, C], logits (activated already where `outputs` says that the graph lacks it) or probabilities.
        are_logits: Which.
        several: One query may give several classes, where the package does not say.
    """

    boxes: Array
    values: Array
    are_logits: bool
    several: bool


@dataclass(frozen=True)
class Rows:
    """Detections that the graph has chosen.

    Attributes:
        boxes: [B, K, 4], as `box_format` says.
        scores: [B, K] probabilities.
        class_ids: [B, K], integers as floats.
        box_format: "cxcywh" or "xyxy".
    """

    boxes: Array
    scores: Array
    class_ids: Array
    box_format: str


Head = Union[Grid, Rows]


class Reader:
    """Finds the head among the raw outputs.

    Args:
        config: `settings` may hold `num_classes`, and `end_to_end` for the one output of width 6: rows (true) or two
            classes (false).

    Raises:
        DecodeError: `outputs` names meanings that do not belong together.
    """

    def __init__(self, config: DecoderConfig) -> None:
        self._names = config.output_names
        self._classes: int | None = config.settings.get("num_classes")
        self._end_to_end: bool | None = config.settings.get("end_to_end")
        self._adapter = config.adapter()
        if config.outputs and frozenset(config.outputs) not in MEANINGS:
            raise DecodeError(f"outputs: expected {meanings()}, got {', '.join(sorted(config.outputs))}")

    def __call__(self, outputs: Sequence[Array]) -> Head:
        """Return the head.

        Raises:
            DecodeError: The outputs are none that is known.
        """
        if self._adapter:
            head = self._named(outputs)
        else:
            head = self._post_processed(outputs) or self._pair(outputs) or self._single(outputs)
        if head is None:
            raise DecodeError(f"{FAMILY}: expected {EXPECTED}; got {shapes_of(outputs)}")
        return head

    def _named(self, outputs: Sequence[Array]) -> Head | None:
        """Return what the manifest's `outputs` names."""
        boxes, scores = self._adapter.get("boxes", outputs), self._adapter.get("scores", outputs)
        logits, class_ids = self._adapter.get("logits", outputs), self._adapter.get("classes", outputs)
        assert boxes is not None  # noqa: S101 - every set of MEANINGS has them
        if scores is None and logits is None:
            return self._single([boxes])
        if scores is not None and class_ids is not None:
            return _rows(boxes, scores, class_ids)
        values = scores if logits is None else logits
        assert values is not None  # noqa: S101 - one of the two is
        return _grid(boxes, values, are_logits=logits is not None)

    def _post_processed(self, outputs: Sequence[Array]) -> Head | None:
        """Return labels, boxes and scores as RT-DETR's, D-FINE's and DEIM's own exports have them."""
        flat = [index for index, output in enumerate(outputs) if output.ndim == 2]
        boxes = [output for output in outputs if output.ndim == 3 and output.shape[2] == 4]
        if len(outputs) != 3 or len(flat) != 2 or len(boxes) != 1:
            return None
        labels, scores = self._labels_and_scores(outputs, flat)
        return _rows(boxes[0], scores, labels)

    def _labels_and_scores(self, outputs: Sequence[Array], flat: Sequence[int]) -> tuple[Array, Array]:
        """Return the two apart: by name, by values, and where these tell nothing, labels first."""
        first, second = (outputs[index] for index in flat)
        names = [self._names[index] if index < len(self._names) else "" for index in flat]
        labels = [queries.speaks_of(name, LABEL_WORDS) for name in names]
        scores = [queries.speaks_of(name, SCORE_WORDS) for name in names]
        if labels == [True, False] or scores == [False, True]:
            return first, second
        if labels == [False, True] or scores == [True, False] or (_are_whole(second) and not _are_whole(first)):
            return second, first
        return first, second

    def _pair(self, outputs: Sequence[Array]) -> Head | None:
        pair = queries.find_pair(outputs, self._names)
        return None if pair is None else _grid(*pair, are_logits=True)

    def _single(self, outputs: Sequence[Array]) -> Head | None:
        """Return the one output of Ultralytics' exports: rows (8.4.190), or a box and class scores (8.3.50, 8.4.2)."""
        if len(outputs) != 1 or outputs[0].ndim != 3:
            return None
        head = outputs[0]
        classes, width = self._classes, head.shape[2]
        rows = self._end_to_end
        if rows is None:
            rows = width == 6 and (classes != 2 or _look_chosen(head))
        expected = [6] if rows else [] if classes is None else [4 + classes]
        if width < 5 or (expected and width not in expected):
            wanted = "6" if classes is None else f"6 (rows) or {4 + classes} (4 + {classes} classes)"
            raise DecodeError(f"{FAMILY}: expected one output [B, Q, {wanted}], got {list(head.shape)}")
        if rows:
            return Rows(head[..., :4], head[..., 4], head[..., 5], "cxcywh")
        return Grid(head[..., :4], head[..., 4:], are_logits=False, several=False)


def meanings() -> str:
    """Return what `outputs` may name, for a message."""
    return " or ".join(", ".join(sorted(together)) for together in MEANINGS)


def _grid(boxes: Array, values: Array, are_logits: bool) -> Grid:
    queries.check_pair(FAMILY, boxes, values)
    return Grid(boxes, values, are_logits, several=True)


def _rows(boxes: Array, scores: Array, class_ids: Array) -> Rows:
    if boxes.ndim != 3 or boxes.shape[2] != 4 or not scores.shape == class_ids.shape == boxes.shape[:2]:
        raise DecodeError(
            f"{FAMILY}: expected boxes [B, K, 4] with scores and labels [B, K], got "
            f"{shapes_of([boxes, scores, class_ids])}"
        )
    return Rows(boxes, scores, class_ids, "xyxy")


def _are_whole(values: Array) -> bool:
    return bool((values == np.rint(values)).all())


def _look_chosen(head: Array) -> bool:
    """Return whether rows of 6 end in a falling score and a whole class, which two classes' scores never do."""
    scores, class_ids = head[..., 4], head[..., 5]
    return _are_whole(class_ids) and bool((scores[:, 1:] <= scores[:, :-1]).all())
