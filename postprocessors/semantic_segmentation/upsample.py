"""Class scores of a small map to the best class of every source pixel, exactly and in little memory.

Scores are interpolated and compared after it, as transformers' post_process_semantic_segmentation does it: bilinear,
`align_corners=False`, then argmax. Interpolating 150 planes to 3840 x 2160 would take 5 GB and seconds; two facts
make it cheap:

- between four cells a plane stays within their lowest and highest value. A class whose highest value in such a square
  is below another's lowest cannot win there, and most classes cannot win anywhere in a tile;
- where one class is left, there is nothing to interpolate.

Payload: runs inside the server's python (3.9 or newer); needs numpy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..geometry import FrameGeometry
from ..maps import centres

FloatArray = npt.NDArray[np.float32]
ClassMask = npt.NDArray[np.uint8]

# A tile is as many source pixels wide and high as this many cells are, within limits: a wide one has more classes, a
# narrow one more overhead.
_CELLS = 6
_LEAST, _MOST = 128, 256
# Infinities cannot be interpolated; these rank the same.
_HUGE = np.float32(1e30)


class Samples(NamedTuple):
    """Where the pixels of one axis lie between cells.

    Attributes:
        low: The cell before each pixel's centre, int [source side].
        share: How far on its way to the next cell the centre is, float32, 0 to 1.
        last: The last cell that shows the image; the next cell of it is itself.
    """

    low: npt.NDArray[np.intp]
    share: FloatArray
    last: int

    def part(self, start: int, stop: int) -> tuple[slice, Samples]:
        """Return the cells that the pixels from `start` to `stop` need, and where those lie between them."""
        first, last = int(self.low[start]), min(int(self.low[stop - 1]) + 1, self.last)
        return slice(first, last + 1), Samples(self.low[start:stop] - first, self.share[start:stop], last - first)


def best_classes(planes: FloatArray, frame: FrameGeometry) -> ClassMask:
    """Return the class with the highest score of every source pixel, uint8 [H, W]; of equal ones the lower.

    Args:
        planes: The scores, float32 [C, h, w], C <= 256, over the network's input; NaN counts as minus infinity.
        frame: Where the image lies in it; padding has no influence.
    """
    if not (planes.min() >= -_HUGE and planes.max() <= _HUGE):
        planes = np.fmin(np.fmax(planes, -_HUGE), _HUGE)
    rows, columns = (_samples(frame, axis, planes.shape[1 + axis]) for axis in (0, 1))
    height, width = frame.source
    picture = np.empty((height, width), np.uint8)
    tall, wide = _tile(height, planes.shape[1]), _tile(width, planes.shape[2])
    for top in range(0, height, tall):
        bottom = min(top + tall, height)
        rows_of, rows_at = rows.part(top, bottom)
        for left in range(0, width, wide):
            right = min(left + wide, width)
            columns_of, columns_at = columns.part(left, right)
            _fill(picture[top:bottom, left:right], planes[:, rows_of, columns_of], rows_at, columns_at)
    return picture


def _tile(side: int, cells: int) -> int:
    return min(max(_CELLS * side // cells, _LEAST), _MOST)


def _samples(frame: FrameGeometry, axis: int, cells: int) -> Samples:
    # Cells that show padding alone have no influence on the image's border.
    scale = cells / frame.network[axis]
    first = int(frame.offset[axis] * scale)
    last = min(int(np.ceil((frame.offset[axis] + frame.resized[axis]) * scale)), cells) - 1
    places = np.clip(centres(frame, axis, cells) - 0.5, first, last)
    low = np.clip(np.floor(places), first, max(last - 1, first)).astype(np.intp)
    return Samples(low, (places - low).astype(np.float32), last)


def _fill(target: ClassMask, block: FloatArray, rows: Samples, columns: Samples) -> None:
    """Write the best class of each pixel of a tile; `block` holds the finite scores of its cells, [C, h, w]."""
    # What is nowhere as good as another class is everywhere needs no closer look.
    flat = block.reshape(len(block), -1)  # A copy: it is read several times.
    block = flat.reshape(block.shape)
    hopeful = np.flatnonzero(flat.max(axis=1) >= flat.min(axis=1).max())
    candidates = hopeful[_can_win(block[hopeful])] if len(hopeful) > 1 else hopeful
    target.fill(candidates[0])
    if len(candidates) == 1:
        return
    best = _interpolated(block[candidates[0]], rows, columns)
    for class_id in candidates[1:].tolist():
        scores = _interpolated(block[class_id], rows, columns)
        np.copyto(target, class_id, where=scores > best)
        np.maximum(best, scores, out=best)


def _can_win(block: FloatArray) -> npt.NDArray[np.bool_]:
    """Return which classes can be the best one somewhere between the cells of [C, h, w]."""
    lows, highs = _over_squares(np.minimum, block), _over_squares(np.maximum, block)
    return (highs >= lows.max(axis=0)).any(axis=(1, 2))


def _over_squares(extreme: np.ufunc, block: FloatArray) -> FloatArray:
    """Return the minimum or maximum of every square of four neighbouring cells."""
    for axis in (1, 2):
        if block.shape[axis] > 1:
            near = block[:, :-1] if axis == 1 else block[:, :, :-1]
            far = block[:, 1:] if axis == 1 else block[:, :, 1:]
            block = extreme(near, far)
    return block


def _interpolated(plane: FloatArray, rows: Samples, columns: Samples) -> FloatArray:
    """Return the plane [h, w] at every pixel, float32 [pixel rows, pixel columns]."""
    return _along(_along(plane.T, columns).T, rows)


def _along(plane: FloatArray, samples: Samples) -> FloatArray:
    """Interpolate along the first axis."""
    plane = np.ascontiguousarray(plane)
    if samples.last == 0:
        return plane.take(samples.low, axis=0)
    steps = (plane[1:] - plane[:-1]).take(samples.low, axis=0)
    steps *= samples.share[:, None]
    steps += plane.take(samples.low, axis=0)
    return steps
