"""The places where scores reach the threshold, against NumPy's own nonzero."""

from __future__ import annotations

import numpy as np
import pytest

from postprocessors.yolo.scan import CROWD, FOLDS, MAX_HITS, UNCOUNTED, find_reached

HALF = np.float32(0.5)


def expected(table: np.ndarray, first: int, last: int) -> list[int]:
    marked = table >= HALF
    marked[:, :first] = False
    marked[:, last:] = False
    return np.flatnonzero(marked).tolist()


@pytest.mark.parametrize("share", [pytest.param(0.0, id="none"), 0.001, 0.05, pytest.param(1.0, id="all")])
@pytest.mark.parametrize(
    ("shape", "first", "last"),
    [
        pytest.param((80, 525), 0, 525, id="channels-first"),
        pytest.param((525, 84), 4, 84, id="channels-last"),
        pytest.param((525, 117), 4, 84, id="extras-behind"),
        pytest.param((525, 85), 5, 85, id="odd-width"),
        pytest.param((1, 1), 0, 1, id="one-score"),
        pytest.param((3, 5), 0, 5, id="less-than-a-word-per-fold"),
        pytest.param((80, 0), 0, 0, id="no-anchors"),
        pytest.param((0, 84), 4, 84, id="no-anchors-channels-last"),
    ],
)
def test_every_score_that_reaches_the_threshold_is_found(
    shape: tuple[int, int], first: int, last: int, share: float
) -> None:
    rng = np.random.default_rng(1)
    table = np.where(rng.random(shape) < share, 0.5, 0.4).astype(np.float32)
    places = find_reached(table, HALF, first, last)
    assert places is not None
    assert sorted(places.tolist()) == expected(table, first, last)


@pytest.mark.parametrize("place", [0, 1, 41_999, 42_000])
def test_marks_at_either_end_are_found(place: int) -> None:
    table = np.zeros((1, 42_001), np.float32)
    table[0, place] = 1
    places = find_reached(table, HALF, 0, table.shape[1])
    assert places is not None
    assert places.tolist() == [place]


def test_few_and_a_crowd_are_both_found_where_the_way_changes() -> None:
    table = np.zeros((FOLDS, CROWD * FOLDS * 8), np.float32)
    limit = table.size // (FOLDS * CROWD)
    for count in (limit, limit + 1):
        table[0, :count] = 1
        places = find_reached(table, HALF, 0, table.shape[1])
        assert places is not None
        assert sorted(places.tolist()) == list(range(count))


def test_no_number_reaches_nothing() -> None:
    table = np.array([[np.nan, 0.5, -np.inf, np.inf]], np.float32)
    places = find_reached(table, HALF, 0, 4)
    assert places is not None
    assert sorted(places.tolist()) == [1, 3]


@pytest.mark.parametrize("size", [MAX_HITS + 1, UNCOUNTED + 1])
def test_too_many_are_refused(size: int) -> None:
    assert find_reached(np.ones((1, size), np.float32), HALF, 0, size) is None
