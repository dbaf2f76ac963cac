"""Any number of images through a graph of a fixed batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtimes.contract import RunnerError
from runtimes.slices import run_in_slices

Array = np.ndarray[Any, Any]


class Engine:
    """Takes exactly `size` images; gives their sums and the images themselves."""

    def __init__(self, size: int | None) -> None:
        self.size = size
        self.calls: list[int] = []

    def __call__(self, part: Array) -> list[Array]:
        assert self.size in (None, len(part))
        self.calls.append(len(part))
        return [part.sum(axis=(1, 2)), part * 2]


@given(count=st.integers(1, 20), size=st.none() | st.integers(1, 8))
def test_every_image_gets_its_own_result(count: int, size: int | None) -> None:
    batch = np.arange(count * 6, dtype=np.float32).reshape(count, 2, 3)
    engine = Engine(size)
    sums, doubled = run_in_slices(engine, batch, size)
    np.testing.assert_array_equal(sums, batch.sum(axis=(1, 2)))
    np.testing.assert_array_equal(doubled, batch * 2)
    assert len(engine.calls) == (1 if size is None else -(-count // size))


def test_the_last_slice_is_filled_up_with_its_last_image() -> None:
    seen: list[Array] = []

    def run(part: Array) -> list[Array]:
        seen.append(part)
        return [part]

    run_in_slices(run, np.array([[1.0], [2.0], [3.0]], np.float32), 2)
    assert [part.tolist() for part in seen] == [[[1], [2]], [[3], [3]]]


def test_a_bare_number_per_image() -> None:
    (scores,) = run_in_slices(lambda part: [np.float32(part.sum()).reshape(())], np.ones((3, 2), np.float32), 1)
    assert scores.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        pytest.param(("boxes", "rows"), "output rows", id="named"),
        pytest.param(("", ""), "output #1", id="nameless"),
        pytest.param((), "output #1", id="not-given"),
    ],
)
def test_b78_an_output_without_a_batch_axis_is_refused(names: tuple[str, ...], shown: str) -> None:
    with pytest.raises(RunnerError) as caught:
        run_in_slices(lambda part: [part, np.zeros((7, 6), np.float32)], np.ones((3, 2), np.float32), 2, names)
    assert str(caught.value) == (
        f"{shown}: expected the graph's batch of 2 as its first axis, got [7, 6]; export the model with a free batch"
    )
