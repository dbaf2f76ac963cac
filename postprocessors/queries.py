"""Queries: what DETR-like heads give, a fixed set of boxes, each with a number per class, and no NMS.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .contract import Array, DecodeError, DecodeValueError, shapes_of
from .geometry import FloatArray

PAIR = "boxes [B, Q, 4] and logits [B, Q, C]"
BOX_WORDS = ("box", "dets")
LOGIT_WORDS = ("logit", "label", "score", "class")
# So many different values are no coincidence. Of real probabilities most are next to nothing, or they are 1 in total.
WHOLE_HEAD = 100
MIDDLE_OF_PROBABILITIES = 0.25
TOTAL_TOLERANCE = 0.02
# Exporters' own names, boxes first. They tell the pair where the graph also returns what training needs.
EXPORTERS_NAMES = (("pred_boxes", "logits"), ("pred_boxes", "pred_logits"), ("dets", "labels"))


def find_pair(outputs: Sequence[Array], names: Sequence[str]) -> tuple[Array, Array] | None:
    """Return (boxes, logits) among the raw outputs, None where no two of rank 3 can be told from the others.

    Exporters' own names come first. Of the only two outputs of rank 3 the last axis tells which is which, then their
    names, then their values; where these tell nothing either, boxes come first, as RF-DETR exports them.

    Args:
        outputs: Every raw output of the batch.
        names: Their names in the same order; empty strings, or fewer, where the engine loses names.
    """
    named = [(names[index] if index < len(names) else "", x) for index, x in enumerate(outputs) if x.ndim == 3]
    by_name = dict(named)
    for box_name, logit_name in EXPORTERS_NAMES:
        if box_name in by_name and logit_name in by_name:
            pair = (box_name, by_name[box_name]), (logit_name, by_name[logit_name])
            return _which_is_which(*pair)
    return _which_is_which(named[0], named[1]) if len(named) == 2 else None


def check_pair(family: str, boxes: Array, logits: Array) -> None:
    """Refuse boxes and logits that are not of the same queries.

    Raises:
        DecodeError: They are not `[B, Q, 4]` and `[B, Q, C]`.
    """
    if boxes.ndim != 3 or logits.ndim != 3 or boxes.shape != (*logits.shape[:2], 4):
        raise DecodeError(f"{family}: expected {PAIR}, got {shapes_of([boxes, logits])}")


def check_columns(family: str, shape: Sequence[int], classes: int | None) -> None:
    """Refuse logits `[B, Q, C]` that have neither `classes` columns nor one more, which stands for "no object".

    Raises:
        DecodeError: They have not.
    """
    if classes is not None and shape[2] not in (classes, classes + 1):
        raise DecodeError(
            f"{family}: expected {classes} or {classes + 1} class columns for num_classes={classes}, "
            f"got {shape[2]} in {list(shape)}"
        )


def check_batch(family: str, boxes: Array, images: int) -> None:
    """Refuse outputs of fewer images than there are.

    Raises:
        DecodeError: They are fewer.
    """
    if len(boxes) < images:
        raise DecodeError(f"{family}: expected {images} images in the outputs, got {len(boxes)}")


def refuse_probabilities(family: str, logits: Array, advice: str) -> None:
    """Refuse an image's logits [Q, C] that are probabilities already.

    A second sigmoid would lift nearly all of them above 0.5, a second softmax would let none pass. NaN and infinities
    are in no range, so that a head with some is taken for what it should be.

    Raises:
        DecodeValueError: A whole head lies in 0..1, as probabilities do and logits never.
    """
    if logits.size < WHOLE_HEAD or not (logits.min() >= 0 and 0 < logits.max() <= 1):
        return
    if len(np.unique(logits)) < WHOLE_HEAD:
        return
    exclusive = logits.shape[1] > 1 and bool((np.abs(logits.sum(axis=1) - 1) <= TOTAL_TOLERANCE).all())
    if exclusive or np.median(logits) < MIDDLE_OF_PROBABILITIES:
        raise DecodeValueError(
            f"{family}: expected logits, got {list(logits.shape)} numbers from {logits.min():.3g} to "
            f"{logits.max():.3g}, which are probabilities already; {advice}"
        )


def kept_columns(family: str, columns: int, background: int | None) -> npt.NDArray[np.intp]:
    """Return the class columns that may be reported: all but the background, which counts from the end if negative.

    Raises:
        DecodeError: There is no such column, or none is left.
    """
    if background is not None and not -columns <= background < columns:
        raise DecodeError(f"{family}: expected background_class within {columns} class columns, got {background}")
    kept = np.delete(np.arange(columns), [] if background is None else [background])
    if not len(kept):
        raise DecodeError(f"{family}: expected class columns besides the background, got {columns} in all")
    return kept


def column_names(class_names: Sequence[str], columns: int, background: int | None) -> tuple[str, ...]:
    """Return names by column. Where they name the foreground only and column 0 is the background, ids stay columns."""
    if background == 0 and len(class_names) == columns - 1:
        return ("background", *class_names)
    return tuple(class_names)


def best_pairs(scores: FloatArray, limit: int, lowest: np.float32) -> npt.NDArray[np.intp]:
    """Return where the best `limit` of scores [n], none below `lowest`, lie; best first, ties by the lower index.

    This is the flat top-k over query x class of Deformable DETR's and RF-DETR's post-processing. NaN is never chosen.
    """
    chosen = np.flatnonzero(scores >= lowest)
    if len(chosen) > limit:
        # A full sort of thousands costs a millisecond; what ties with the last place stays in until the sort.
        chosen = chosen[scores[chosen] >= np.partition(scores[chosen], -limit)[-limit]]
    return chosen[np.argsort(-scores[chosen], kind="stable")][:limit]


def corners(boxes: npt.NDArray[Any]) -> FloatArray:
    """Return x1, y1, x2, y2 [n, 4] of cx, cy, w, h [n, 4]."""
    middle, half = boxes[:, :2], boxes[:, 2:] / 2
    return np.concatenate([middle - half, middle + half], axis=1).astype(np.float32, copy=False)


def speaks_of(name: str, words: Sequence[str]) -> bool:
    """Return whether an output's name holds one of the words."""
    return any(word in name.lower() for word in words)


def _which_is_which(first: tuple[str, Array], second: tuple[str, Array]) -> tuple[Array, Array]:
    for (_, boxes), (_, logits) in ((first, second), (second, first)):
        if boxes.shape[2] == 4 and logits.shape[2] != 4:
            return boxes, logits
    for (box_name, boxes), (logit_name, logits) in ((first, second), (second, first)):
        if speaks_of(box_name, BOX_WORDS) and speaks_of(logit_name, LOGIT_WORDS):
            return boxes, logits
    if _share_of_fractions(second[1]) > _share_of_fractions(first[1]):
        return second[1], first[1]
    return first[1], second[1]


def _share_of_fractions(tensor: Array) -> float:
    """Return how many of the values could be fractions of the image: nearly all of the boxes', few of the logits'."""
    return float(((tensor >= 0) & (tensor <= 1)).mean()) if tensor.size else 0.0
