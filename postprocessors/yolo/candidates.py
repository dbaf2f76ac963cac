"""Which anchors of a raw head take part: every score that reaches its threshold, best first.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..class_rules import ClassRules
from ..contract import DecodeValueError
from ..geometry import FloatArray

IndexArray = npt.NDArray[np.intp]

# What Ultralytics calls max_nms: beyond this many candidates only the best take part in suppression.
MAX_CANDIDATES = 30_000
# Half-precision sigmoids round up to just above 1.
SCORE_SLACK = 1e-3
# Scores are looked at in blocks: most hold none that counts. A few thousand bools are found in no time.
SCAN_BITS = 11
SCAN_BLOCK = 1 << SCAN_BITS
# More scores than this that count, and the anchors are gone through in chunks: memory stays flat.
MAX_HITS = 65_536
# So many scores may all count, for a moment: counting them before costs as much as it saves.
UNCOUNTED = 1 << 20
CHUNK_ANCHORS = 2048
# The bits of 1.0: as whole numbers, floats from 0 to 1 are ordered as they are, and need 30 bits.
ONE_BITS = 0x3F800000
# What is left of a positive 64-bit number for anchor and class.
PLACE_BITS = 33


@dataclass(frozen=True)
class ScoreBlock:
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
    peak = hits.scores.max(initial=0)
    if peak == np.inf:
        hits = hits.take(np.isfinite(hits.scores))
        peak = hits.scores.max(initial=0)
    _refuse_above_one(peak, "class scores")
    ranked = _ranked(hits, scores.classes)
    if not multi_label:
        ranked = _best_of_anchors(ranked, scores.anchors)
    passed = rules.passes(ranked.scores, ranked.class_ids)
    if not passed.all():
        ranked = ranked.take(passed)
    return ranked.take(slice(MAX_CANDIDATES)) if len(ranked.scores) > MAX_CANDIDATES else ranked


def _hits(scores: ScoreBlock, lowest: np.float32) -> Candidates | None:
    """Return the scores that reach `lowest`; None when they are too many."""
    block, first, classes = scores.block, scores.first, scores.classes
    if scores.channels_first:
        block = block[first : first + classes]
    # One comparison is the only pass over all scores; NaN never reaches anything.
    mask = np.empty(-(-block.size // SCAN_BLOCK) * SCAN_BLOCK, bool)
    mask[block.size :] = False
    reached = mask[: block.size].reshape(block.shape)
    np.greater_equal(block, lowest, out=reached)
    if not scores.channels_first:
        _clear_beside(reached, first, classes)
    positions = _positions(mask)
    if positions is None:
        return None
    values = block.reshape(-1).take(positions)
    rows, columns = np.divmod(positions, block.shape[1])
    if scores.channels_first:
        return Candidates(columns, rows, values)
    return Candidates(rows, columns - first, values)


def _clear_beside(reached: npt.NDArray[np.bool_], first: int, classes: int) -> None:
    """Forget what was found in the channels before and after the class scores of [N, channels]."""
    if first == 4 and reached.shape[1] % 4 == 0:
        # Four bools are cleared as one number, several times as fast.
        reached.view(np.uint32)[:, 0] = 0
    else:
        reached[:, :first] = False
    reached[:, first + classes :] = False


def _positions(mask: npt.NDArray[np.bool_]) -> IndexArray | None:
    """Return where `mask`, a whole number of blocks long, is set; None when that is too often."""
    blocks = mask.reshape(-1, SCAN_BLOCK)
    used: IndexArray = blocks.any(axis=1).nonzero()[0]
    # With few blocks in use, copying them costs less than looking at the rest.
    dense = 2 * len(used) > len(blocks)
    part = mask if dense else blocks.take(used, axis=0).reshape(-1)
    if len(part) > UNCOUNTED and np.count_nonzero(part) > MAX_HITS:
        return None
    positions: IndexArray = part.nonzero()[0]
    if len(positions) > MAX_HITS:
        return None
    if dense:
        return positions
    return (used[positions >> SCAN_BITS] << SCAN_BITS) | (positions & (SCAN_BLOCK - 1))


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


def _ranked(hits: Candidates, classes: int) -> Candidates:
    """Return the hits in order, none above 1: one sort of whole numbers that hold score, anchor and class."""
    class_bits = max((classes - 1).bit_length(), 1)
    # Adding zero makes minus zero plain zero, whose bits are those of the smallest score.
    scores = np.minimum(hits.scores, np.float32(1)) + np.float32(0)
    keys = ONE_BITS - scores.view(np.int32).astype(np.int64)
    keys <<= PLACE_BITS
    keys |= (hits.anchors << class_bits) | hits.class_ids
    keys.sort()
    places = keys & ((1 << PLACE_BITS) - 1)
    bits = ONE_BITS - (keys >> PLACE_BITS)
    return Candidates(places >> class_bits, places & ((1 << class_bits) - 1), bits.astype(np.int32).view(np.float32))


def _best_of_anchors(ranked: Candidates, anchors: int) -> Candidates:
    """Return the first candidate of every anchor."""
    count = len(ranked.anchors)
    first = np.empty(anchors, np.intp)
    # Written backwards: of several candidates the best is written last and stays.
    first[ranked.anchors[::-1]] = np.arange(count - 1, -1, -1)
    best = first[ranked.anchors] == np.arange(count)
    return ranked if best.all() else ranked.take(best)
