"""COCO's run-length encoding of masks: pixels column by column, runs of zeros and ones in turn, zeros first.

`run_lengths` is COCO's uncompressed form ("counts" as a list), `to_string` the compressed one that pycocotools writes
and reads ("counts" as text); "size" beside them is [height, width] of the image.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .results import InstanceMask

CountArray = npt.NDArray[np.int64]

# A character holds five bits of a number and one that says that more follow.
BITS = 5
MORE = 1 << BITS
FIRST_CHARACTER = 48


def run_lengths(mask: InstanceMask, size: tuple[int, int]) -> CountArray:
    """Return the runs' lengths, int64 [n]; their sum is the number of the image's pixels.

    Runs are found in the cut-out: the image's pixels are never laid out.

    Args:
        mask: A cut-out that lies in the image; an empty one gives one run of zeros.
        size: (height, width) of the image.
    """
    height, width = size
    starts, stops = _columns_runs(mask, height)
    # What reaches the foot of a column goes on at the head of the next.
    broken = starts[1:] != stops[:-1]
    ends = np.empty((len(starts), 2), np.int64)
    ends[:, 0], ends[:, 1] = starts, stops
    joined = ends.reshape(-1)
    joined = joined[np.concatenate([[True], np.repeat(broken, 2), [True]])] if len(joined) else joined
    edges = np.concatenate([[0], joined, [height * width]])
    counts = np.diff(edges)
    # The last pixel may be one: no zeros follow. The first may be: no zeros go before, which counts.
    return counts[:-1] if len(counts) > 1 and counts[-1] == 0 else counts


def _columns_runs(mask: InstanceMask, height: int) -> tuple[CountArray, CountArray]:
    """Return where runs of ones start and stop, counted column by column through the image of this height."""
    rows, columns = mask.pixels.shape
    framed = np.zeros((columns, rows + 2), bool)
    framed[:, 1:-1] = mask.pixels.T
    column, row = np.nonzero(framed[:, 1:] != framed[:, :-1])
    places = (mask.left + column) * height + mask.top + row
    return places[::2], places[1::2]


def to_string(counts: CountArray) -> str:
    """Return pycocotools' text of run lengths: from the fourth on, what each is more than the one before the last.

    A number is written in pieces of five bits, lowest first, until what is left is its sign.
    """
    values = counts.copy()
    values[3:] -= counts[1:-2]
    # As many characters as leave room for the sign bit.
    magnitude = np.where(values < 0, ~values, values)
    lengths = np.ones(len(values), np.int64)
    while (longer := magnitude >> (BITS * lengths - 1) > 0).any():
        lengths += longer
    places = np.arange(int(lengths.max(initial=1)))
    pieces = (values[:, None] >> (BITS * places)) & (MORE - 1)
    pieces |= np.where(places < lengths[:, None] - 1, MORE, 0)
    used = pieces[places < lengths[:, None]] + FIRST_CHARACTER
    return used.astype(np.uint8).tobytes().decode("ascii")
