"""Which anchors of a raw head take part: every score that reaches its threshold, best first.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..class_rules import ClassRules
from ..contract import DecodeValueError
from ..geometry import FloatArray
from .scan import IndexArray, find_reached

# What Ultralytics calls max_nms: beyond this many candidates only the best take part in suppression.
MAX_CANDIDATES = 30_000
# Half-precision sigmoids round up to just above 1.
SCORE_SLACK = 1e-3
CHUNK_ANCHORS = 2048
# A key's lower bits hold anchor and class; above them, a score's own bits, which are ordered as scores from 0 to 1 are.
# In arrays: NumPy converts a bare number anew in every call.
KEY_BIT_OF_SCORE = np.array(-(1 << 32), np.int64)


class ScoreBlock(NamedTuple):
    """Where the scores of one image lie.

    Attributes:
        block: float32, contiguous: [channels, N] or [N, channels].
        channels_first: Which of the two.
        first: The first class's channel.
        classes: How many classes there are.
        objectness: The channel that every class's score is multiplied by; None without one.
    """

    block: FloatArray
    channels_first: bool
    first: int
    classes: int
    objectness: int | None = None

    def channel(self, index: int) -> FloatArray:
        """Return one channel's [N]."""
        return self.block[index] if self.channels_first else self.block[:, index]

    def chunk(self, anchors: IndexArray) -> FloatArray:
        """Return the class scores [classes, n] of some anchors, objectness included."""
        channels = slice(self.first, self.first + self.classes)
        scores = self.block[channels].take(anchors, axis=1) if self.channels_first else self.block[anchors, channels].T
        if self.objectness is None:
            return scores
        # What is no number becomes none of the candidates.
        with np.errstate(invalid="ignore", over="ignore"):
            return scores * self.channel(self.objectness)[anchors]

    @property
    def anchors(self) -> int:
        """Return N."""
        return self.block.shape[1 if self.channels_first else 0]


class Candidates(NamedTuple):
    """Anchors [n], class ids [n] and scores [n] (float32)."""

    anchors: IndexArray
    class_ids: IndexArray
    scores: FloatArray

    def take(self, rows: npt.NDArray[Any] | slice) -> Candidates:
        """Return these of them."""
        return Candidates(self.anchors[rows], self.class_ids[rows], self.scores[rows])


def find_candidates(scores: ScoreBlock, rules: ClassRules, multi_label: bool) -> Candidates:
    """Return the candidates of one image, at most MAX_CANDIDATES, best first; of equal scores the lower anchor first.

    Args:
        scores: The image's class scores; what is not a finite number never counts.
        rules: Thresholds and the classes that are kept.
        multi_label: Every class of an anchor that reaches its threshold is a candidate; else only its best class.

    Raises:
        DecodeValueError: A score that counts is above 1: it is no probability.
    """
    hits = None if scores.objectness is not None else _hits(scores, rules.lowest)
    if hits is None:
        hits = _joined(_chunks(scores, rules, multi_label))
    if not rules.lowest > 0:
        hits = _within_bounds(hits)
    ranked = _ranked(hits, scores.classes)
    if len(ranked.scores) and ranked.scores[0] > 1:
        ranked = _ranked(_within_bounds(hits), scores.classes)
    if not multi_label and scores.classes > 1:
        ranked = _best_of_anchors(ranked, scores.anchors)
    if not rules.uniform:
        ranked = ranked.take(rules.passes(ranked.scores, ranked.class_ids))
    return ranked.take(slice(MAX_CANDIDATES)) if len(ranked.scores) > MAX_CANDIDATES else ranked


def _hits(scores: ScoreBlock, lowest: np.float32) -> Candidates | None:
    """Return the scores that reach `lowest`; None when they are too many."""
    first, last = scores.first, scores.first + scores.classes
    if scores.channels_first:
        table = scores.block[first:last]
        first, last = 0, scores.anchors
    else:
        table = scores.block
    places = find_reached(table, lowest, first, last)
    if places is None:
        return None
    columns = np.array(max(table.shape[1], 1))
    rows = places // columns
    within = places - rows * columns
    values = table.reshape(-1).take(places)
    if scores.channels_first:
        return Candidates(within, rows, values)
    return Candidates(rows, within - first, values)


def _chunks(scores: ScoreBlock, rules: ClassRules, multi_label: bool) -> Iterator[Candidates]:
    """Yield what may count, chunk by chunk."""
    anchors, lowest = np.arange(scores.anchors), rules.lowest
    if scores.objectness is not None:
        objectness = scores.channel(scores.objectness)
        anchors = np.flatnonzero((objectness >= lowest) & (objectness < np.inf))
        _refuse_above_one(objectness[anchors].max(initial=0), "objectness scores")
    for start in range(0, len(anchors), CHUNK_ANCHORS):
        part = anchors[start : start + CHUNK_ANCHORS]
        chunk = scores.chunk(part)
        chunk = np.where(np.isfinite(chunk), chunk, np.float32(-1))
        if multi_label:
            class_ids, columns = np.nonzero(chunk >= lowest)
            values = chunk[class_ids, columns]
        else:
            class_ids, values = chunk.argmax(axis=0), chunk.max(axis=0)
            columns = np.flatnonzero(values >= lowest)
            class_ids, values = class_ids[columns], values[columns]
        found = Candidates(part[columns], class_ids, values)
        # Before the best are chosen: a class that is not kept must not crowd out one that is.
        yield found.take(rules.passes(found.scores, found.class_ids))


def _joined(parts: Iterable[Candidates]) -> Candidates:
    """Return all parts' candidates, at most the MAX_CANDIDATES best."""
    joined = Candidates(np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0, np.float32))
    for part in parts:
        joined = Candidates(
            np.concatenate([joined.anchors, part.anchors]),
            np.concatenate([joined.class_ids, part.class_ids]),
            np.concatenate([joined.scores, part.scores]),
        )
        if len(joined.scores) > MAX_CANDIDATES:
            joined = joined.take(np.argpartition(-joined.scores, MAX_CANDIDATES)[:MAX_CANDIDATES])
    return joined


def _refuse_above_one(peak: float, what: str) -> None:
    if peak > 1 + SCORE_SLACK:
        raise DecodeValueError(f"yolo: {what} reach {peak:.3g}, expected 0..1; export the model with its sigmoid")


def _within_bounds(hits: Candidates) -> Candidates:
    """Return the hits whose scores are numbers, none above 1 or of minus zero.

    Raises:
        DecodeValueError: A score is above 1.
    """
    finite = np.isfinite(hits.scores)
    hits = hits if finite.all() else hits.take(finite)
    _refuse_above_one(hits.scores.max(initial=0), "class scores")
    # Adding zero makes minus zero plain zero, whose bits are those of the smallest score.
    return Candidates(hits.anchors, hits.class_ids, np.minimum(hits.scores, np.float32(1)) + np.float32(0))


def _ranked(hits: Candidates, classes: int) -> Candidates:
    """Return the hits in order: one sort of whole numbers that hold score, anchor and class."""
    class_bits = np.array(max((classes - 1).bit_length(), 1))
    keys = hits.scores.view(np.int32) * KEY_BIT_OF_SCORE
    keys += (hits.anchors << class_bits) | hits.class_ids
    order = keys.argsort()
    return Candidates(hits.anchors.take(order), hits.class_ids.take(order), hits.scores.take(order))


def _best_of_anchors(ranked: Candidates, anchors: int) -> Candidates:
    """Return the first candidate of every anchor."""
    place, numbers = np.empty(anchors, np.intp), np.arange(len(ranked.anchors))
    place.put(ranked.anchors, numbers)
    if np.count_nonzero(place.take(ranked.anchors) == numbers) == len(numbers):
        return ranked
    # Written backwards: of several candidates the best is written last and stays.
    place.put(ranked.anchors[::-1], numbers[::-1])
    return ranked.take(place.take(ranked.anchors) == numbers)
