"""One image's part of the raw outputs, whatever the export looks like.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..contract import Array
from ..geometry import FloatArray
from .candidates import ScoreBlock
from .heads import Reading
from .scan import IndexArray


class RawImage(NamedTuple):
    """A box and class scores for every anchor, nothing suppressed.

    Attributes:
        scores: The class scores of every anchor.
        boxes: [N, 4], a view.
        extras: [N, E], a view.
    """

    scores: ScoreBlock
    boxes: FloatArray
    extras: FloatArray

    def boxes_of(self, anchors: IndexArray) -> FloatArray:
        """Return these anchors' boxes [n, 4]."""
        by_column = self.boxes.T
        # Of rows that lie together, take is twice as fast as indexing; of others it copies all before.
        return by_column.take(anchors, axis=1).T if by_column.flags.c_contiguous else self.boxes[anchors]

    def extras_of(self, anchors: IndexArray) -> FloatArray:
        """Return these anchors' extras [n, E]."""
        if not self.extras.shape[1]:
            return _no_extras(len(anchors))
        return self.extras[anchors].astype(np.float32, copy=False)


@dataclass(frozen=True)
class Rows:
    """The graph's own detections; padding may follow.

    Attributes:
        boxes: [K, 4].
        scores: [K].
        class_ids: [K], whole numbers.
        extras: [K, E].
    """

    boxes: FloatArray
    scores: FloatArray
    class_ids: FloatArray
    extras: FloatArray


def raw_image(head: Array, reading: Reading, classes: int) -> RawImage:
    """Return the parts of one image's head [channels, N] or [N, channels]."""
    block, channels_first = _contiguous(head, reading.channels_first)
    by_anchor = block.T if channels_first else block
    first = 5 if reading.objectness else 4
    scores = ScoreBlock(block, channels_first, first, classes, 4 if reading.objectness else None)
    return RawImage(scores, by_anchor[:, :4], by_anchor[:, first + classes :])


def raw_pair(boxes: Array, scores: Array, classes: int, channels_first: bool) -> RawImage:
    """Return the parts of one image's boxes [N, 4] and scores [N, classes] (`channels_first`: [classes, N])."""
    block, channels_first = _contiguous(scores, channels_first)
    return RawImage(ScoreBlock(block, channels_first, 0, classes), boxes, _no_extras(len(boxes)))


def end_to_end_rows(head: Array) -> Rows:
    """Return the rows of one image's head [K, 6 + E]: box, score, class, extras."""
    rows = head.astype(np.float32, copy=False)
    return Rows(rows[:, :4], rows[:, 4], rows[:, 5], rows[:, 6:])


def indexed_rows(rows: Array, image_index: int) -> Rows:
    """Return one image's rows of [n, 7]: image, box, class, score, as YOLOv7's end-to-end export has them."""
    own = rows[rows[:, 0] == image_index].astype(np.float32)
    return Rows(own[:, 1:5], own[:, 6], own[:, 5], _no_extras(len(own)))


def counted_rows(boxes: Array, scores: Array, class_ids: Array, count: float | None) -> Rows:
    """Return one image's first `count` of boxes [K, 4], scores [K], class ids [K]; None: all of them."""
    used = slice(None) if count is None else slice(max(int(count), 0) if np.isfinite(count) else 0)
    columns: list[npt.NDArray[Any]] = [part[used].astype(np.float32) for part in (boxes, scores, class_ids)]
    return Rows(columns[0], columns[1], columns[2], _no_extras(len(columns[0])))


def _contiguous(head: Array, channels_first: bool) -> tuple[FloatArray, bool]:
    """Return the tensor as float32 in memory order; a transposed view is turned back instead of copied."""
    taken = head.astype(np.float32, copy=False)
    if not taken.flags.c_contiguous and taken.T.flags.c_contiguous:
        return taken.T, not channels_first
    return np.ascontiguousarray(taken), channels_first


def _no_extras(count: int) -> FloatArray:
    return np.zeros((count, 0), np.float32)
