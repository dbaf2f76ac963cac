"""COCO's run-length encoding: pycocotools' own texts, and a reader of ours for everything else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from postprocessors.results import InstanceMask
from postprocessors.rle import run_lengths, to_string

FACTS = json.loads((Path(__file__).parents[1] / "data" / "rle.json").read_text())["masks"]


def numbers(text: str) -> list[int]:
    """Return the run lengths of a compressed text, read one character after the other."""
    found: list[int] = []
    value = bits = 0
    for character in text:
        piece = ord(character) - 48
        value |= (piece & 31) << bits
        bits += 5
        if piece < 32:
            value -= (1 << bits) if piece & 16 else 0
            found.append(value + (found[-2] if len(found) > 2 else 0))
            value = bits = 0
    return found


def read(text: str, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """Return the mask [H, W] of a compressed text."""
    counts = numbers(text)
    values = np.arange(len(counts)) % 2
    return np.repeat(values, counts).reshape(size[::-1]).T.astype(np.uint8)


@pytest.mark.parametrize("fact", FACTS, ids=[fact["name"] for fact in FACTS])
@pytest.mark.parametrize("cropped", [False, True])
def test_writes_what_pycocotools_writes(fact: dict[str, object], cropped: bool) -> None:
    pixels = np.array([list(map(int, row)) for row in fact["rows"]], np.uint8)
    mask = InstanceMask(0, 0, pixels)
    if cropped and pixels.any():
        rows, columns = np.flatnonzero(pixels.any(axis=1)), np.flatnonzero(pixels.any(axis=0))
        mask = InstanceMask(rows[0], columns[0], pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])
    elif cropped:
        mask = InstanceMask(0, 0, np.zeros((0, 0), np.uint8))
    assert to_string(run_lengths(mask, pixels.shape)) == fact["counts"]


def test_a_large_image_is_not_laid_out() -> None:
    # A terapixel would not fit.
    size = (1_000_000, 1_000_000)
    counts = run_lengths(InstanceMask(10, 999_000, np.ones((2, 2), np.uint8)), size)
    assert counts.tolist() == [999_000_000_010, 2, 999_998, 2, 998_999_988]


@settings(deadline=None, max_examples=150)
@given(
    hnp.arrays(np.uint8, hnp.array_shapes(min_dims=2, max_dims=2, max_side=12), elements=st.integers(0, 1)),
    st.tuples(*[st.integers(0, 300)] * 4),
)
def test_every_mask_is_read_back(pixels: npt.NDArray[np.uint8], margins: tuple[int, ...]) -> None:
    top, bottom, left, right = margins
    full = np.pad(pixels, ((top, bottom), (left, right)))
    counts = run_lengths(InstanceMask(top, left, pixels), full.shape)
    assert counts.sum() == full.size
    assert (counts[1:] > 0).all()
    np.testing.assert_array_equal(read(to_string(counts), full.shape), full)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.integers(1, 2**31), min_size=1, max_size=12))
def test_every_length_is_written(lengths: list[int]) -> None:
    text = to_string(np.array(lengths, np.int64))
    assert text.isascii()
    assert text.isprintable()
    assert numbers(text) == lengths
