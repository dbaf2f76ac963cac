"""Image classifiers: one score per class, [B, nc] (or [B, nc, 1, 1]), to the best classes.

What the scores are is never guessed. Without `use_softmax`, without an activation in the manifest's `outputs` and
without `multi_label` they must be probabilities of classes that exclude each other: 0 to 1, 1 in total. That is what
Ultralytics exports; torchvision and timm export logits.

Payload: runs inside the server's python (3.9 or newer); needs numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..adapter import softmax
from ..class_rules import ClassRules
from ..contract import Array, DecodeError, DecoderConfig, DecodeValueError, shapes_of
from ..geometry import FrameGeometry
from ..results import Classification

FloatArray = npt.NDArray[np.float32]

# Half precision and 8-bit engines miss the total by so much with a thousand classes; logits miss it by more.
TOTAL_TOLERANCE = 0.02
# Rounding may leave 1.0000002.
RANGE_TOLERANCE = 1e-3


class ClassificationDecoder:
    """The `top_k` best classes that reach their thresholds."""

    def __init__(self, config: DecoderConfig) -> None:
        settings = config.settings
        self._settings = settings
        self._names = config.class_names
        self._num_classes: int | None = settings["num_classes"]
        self._top_k = int(settings["top_k"])
        self._use_softmax = bool(settings["use_softmax"])
        activation = config.outputs.get("scores", {}).get("activation", "none")
        self._exclusive = not settings["multi_label"] and activation != "sigmoid"
        self._adapter = config.adapter()
        self._rules: ClassRules | None = None

    def __call__(self, outputs: Sequence[Array], frames: Sequence[FrameGeometry]) -> list[Classification]:
        """Decode the raw outputs (batch axis first); one Classification per frame, empty where no class passes.

        A class whose score is not a number is left out.

        Raises:
            DecodeError: No output, or more than one, holds one score per class; or not `num_classes` of them.
            DecodeValueError: The scores are no probabilities, or no score is a number.
        """
        scores = self._scores(outputs)
        if len(scores) != len(frames):
            raise DecodeError(f"classification: expected {len(frames)} images, got {shapes_of([scores])}")
        # Which columns there are is known with the first outputs; with 20,000 classes this takes milliseconds.
        if self._rules is None or len(self._rules.names) != scores.shape[1]:
            self._rules = ClassRules(self._settings, self._names, scores.shape[1])
        rules = self._rules
        return [self._decode_image(row, rules) for row in scores]

    def _scores(self, outputs: Sequence[Array]) -> FloatArray:
        """Return the scores, float32 [B, nc], as the graph has them."""
        named = self._adapter.get("scores", outputs)
        heads = [named] if named is not None else [output for output in outputs if _is_head(output)]
        if len(heads) != 1 or not _is_head(heads[0]):
            raise DecodeError(
                "classification: expected one output with a score per class, [B, nc] or [B, nc, 1, 1], "
                f"got {shapes_of(outputs)}; name it in the manifest's outputs.scores"
            )
        columns = heads[0].shape[1]
        if self._num_classes not in (None, columns):
            raise DecodeError(
                f"classification: expected {self._num_classes} class scores, got {shapes_of(heads)}; "
                "correct detection.num_classes"
            )
        return heads[0].reshape(-1, columns).astype(np.float32, copy=False)

    def _decode_image(self, row: FloatArray, rules: ClassRules) -> Classification:
        known = np.isfinite(row) if not self._use_softmax else ~np.isnan(row)
        if not known.any():
            raise DecodeValueError("classification: expected finite scores, got none; the engine's numbers overflowed")
        scores = softmax(row) if self._use_softmax else self._probabilities(row, known)
        ids = np.flatnonzero(known)
        ids = ids[rules.passes(scores[ids], ids)]
        ids = ids[_best(scores[ids], self._top_k)]
        labels = tuple(rules.names[class_id] for class_id in cast("list[int]", ids.tolist()))
        return Classification(ids.astype(np.int32), scores[ids], labels)

    def _probabilities(self, row: FloatArray, known: npt.NDArray[np.bool_]) -> FloatArray:
        """Return the scores, checked: probabilities already."""
        finite = row[known].astype(np.float64)
        lowest, highest, total = float(finite.min()), float(finite.max()), float(finite.sum())
        in_range = lowest >= -RANGE_TOLERANCE and highest <= 1 + RANGE_TOLERANCE
        if not in_range or (self._exclusive and abs(total - 1) > TOTAL_TOLERANCE):
            raise DecodeValueError(
                f"classification: expected probabilities, 0 to 1{' and 1 in total' if self._exclusive else ''}, "
                f"got {lowest:.4g} to {highest:.4g}, {total:.4g} in total; set {self._advice(in_range)}"
            )
        return np.clip(row, np.float32(0), np.float32(1))

    def _advice(self, in_range: bool) -> str:
        if not self._exclusive:
            return "outputs.scores.activation to sigmoid if these are logits"
        if in_range:
            return "detection.use_softmax to true if these are logits, multi_label if several classes may hold at once"
        return (
            "detection.use_softmax to true if these are logits, or outputs.scores.activation to sigmoid if several "
            "classes may hold at once"
        )


def create(config: DecoderConfig) -> ClassificationDecoder:
    """Return the family's decoder."""
    return ClassificationDecoder(config)


def _is_head(output: Array) -> bool:
    is_pooled = output.ndim == 2 or (output.ndim == 4 and output.shape[2:] == (1, 1))
    return is_pooled and output.shape[1] > 0 and output.dtype.kind == "f"


def _best(scores: npt.NDArray[Any], count: int) -> npt.NDArray[np.intp]:
    """Return the positions of the `count` highest scores, best first, of equal ones the lower position first."""
    if len(scores) <= count:
        return np.argsort(-scores, kind="stable")
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    near = np.flatnonzero(scores >= least)
    return near[np.argsort(-scores[near], kind="stable")[:count]]
