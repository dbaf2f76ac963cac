"""The palette against the capture world's own list."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from postprocessors.palette import BACKGROUND, PALETTE, colour_mask, colour_of, hex_of

DATA = Path(__file__).parents[1] / "data/capture/palette.json"


def test_palette_is_the_capture_worlds() -> None:
    assert [list(colour) for colour in PALETTE] == json.loads(DATA.read_text())["palette"]
    assert BACKGROUND == (255, 255, 255)


def test_hex() -> None:
    assert [hex_of(0), hex_of(1), hex_of(2)] == ["#FFFFFF", "#23A436", "#14A3B3"]


def test_every_class_index_has_a_colour_that_is_not_the_backgrounds() -> None:
    assert all(colour_of(index) != BACKGROUND for index in range(1, 300))
    assert colour_of(len(PALETTE)) == colour_of(1)


def test_mask_picture() -> None:
    classes = np.arange(256, dtype=np.uint8).reshape(8, 32)
    picture = colour_mask(classes)
    assert (picture.shape, picture.dtype) == ((8, 32, 3), np.uint8)
    assert picture.reshape(-1, 3).tolist() == [list(colour_of(index)) for index in range(256)]
    np.testing.assert_array_equal(colour_mask(np.asfortranarray(classes)), picture)
