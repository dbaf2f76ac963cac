"""Where a head's scores reach a threshold: the only pass over all of them.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..geometry import FloatArray

IndexArray = npt.NDArray[np.intp]

# Scores that count are few: the marks of all are laid over each other so many times before anything is looked for.
FOLDS = 8
# Where more than one mark in so many would have to be looked at again, looking at each once costs less.
CROWD = 16
# More scores than this that count, and the caller goes through the anchors in chunks: memory stays flat.
MAX_HITS = 65_536
# So many scores may all count, for a moment: counting them before costs as much as it saves.
UNCOUNTED = 1 << 20
# Marks are taken as whole numbers of 8 bytes, and cleared 4 at a time.
WORD, HALF_WORD = 8, 4


def find_reached(table: FloatArray, lowest: np.float32, first: int, last: int) -> IndexArray | None:
    """Return the places in `table`'s memory where a score reaches `lowest`, in any order; None when they are too many.

    Args:
        table: float32 [rows, columns], contiguous; what is not a number reaches nothing.
        lowest: The threshold.
        first: The first column that holds scores.
        last: One past the last column that does.
    """
    width = -(-table.size // (FOLDS * WORD)) * WORD
    marks = np.empty(FOLDS * width, bool)
    marks[table.size :] = False
    marked = marks[: table.size].reshape(table.shape)
    np.greater_equal(table, lowest, out=marked)
    if last - first < table.shape[1]:
        _clear_beside(marked, first, last)
    folded = np.bitwise_or.reduce(marks.view(np.uint64).reshape(FOLDS, width // WORD), axis=0)
    used = folded.view(bool).nonzero()[0]
    if len(used) * FOLDS * CROWD > len(marks):
        return _places(marks)
    found = marks.reshape(FOLDS, width).take(used, axis=1).reshape(-1).nonzero()[0]
    fold = found // np.array(max(len(used), 1))
    return fold * np.array(width) + used.take(found - fold * np.array(len(used)))


def _places(marks: npt.NDArray[np.bool_]) -> IndexArray | None:
    """Return where any number of marks are; None when they are too many."""
    if len(marks) > UNCOUNTED and np.count_nonzero(marks) > MAX_HITS:
        return None
    places: IndexArray = marks.nonzero()[0]
    return None if len(places) > MAX_HITS else places


def _clear_beside(marked: npt.NDArray[np.bool_], first: int, last: int) -> None:
    """Forget what was found in the columns that hold no scores."""
    if first == HALF_WORD and marked.shape[1] % HALF_WORD == 0:
        marked.view(np.uint32)[:, 0] = 0
    else:
        marked[:, :first] = False
    marked[:, last:] = False
