"""The images of the reference table, derived from demo/page.png and from integers alone.

Every step is exact integer arithmetic on numpy arrays, so that each machine derives the very same bytes; the reference
file holds their SHA-256. All images are uint8 [H, W, C], RGB order, C 1, 3 or 4.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]
PAGE = Path(__file__).parents[2] / "demo" / "page.png"


class Derivation(NamedTuple):
    """How one image is made from the page (uint8 [1754, 1240, 3]), in code and in words."""

    make: Callable[[Image], Image]
    words: str


def load_page() -> Image:
    """Return demo/page.png, uint8 [1754, 1240, 3], RGB."""
    page = cv2.imread(str(PAGE), cv2.IMREAD_COLOR)
    assert page is not None, f"{PAGE} is missing"
    return np.ascontiguousarray(page[:, :, ::-1], dtype=np.uint8)


def derive(name: str) -> Image:
    """Return the image of that name, contiguous; a KeyError for a name that is not in DERIVATIONS."""
    return np.ascontiguousarray(DERIVATIONS[name].make(load_page()))


def digest(image: Image) -> str:
    """Return the SHA-256 of the pixels in C order."""
    return hashlib.sha256(np.ascontiguousarray(image).tobytes()).hexdigest()


def scaled(image: Image, up: int, down: int) -> Image:
    """Scale by up/down: each pixel repeated `up` times, then the floor of the mean of each `down` x `down` block."""
    large = image.repeat(up, axis=0).repeat(up, axis=1)
    rows, columns = large.shape[0] // down, large.shape[1] // down
    blocks = large[: rows * down, : columns * down].reshape(rows, down, columns, down, -1)
    return (blocks.sum(axis=(1, 3), dtype=np.uint32) // (down * down)).astype(np.uint8)


def noise(height: int, width: int, spread: int, seed: int) -> npt.NDArray[np.int32]:
    """Return int32 [height, width, 3] in [-spread, spread] from a 32-bit mixing hash of each element's index."""
    index = np.arange(height * width * 3, dtype=np.uint32) + np.uint32(seed * 7919)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        index = (index ^ (index >> np.uint32(shift))) * np.uint32(factor)
    index ^= index >> np.uint32(16)
    return (index % np.uint32(2 * spread + 1)).astype(np.int32).reshape(height, width, 3) - spread


def with_noise(image: Image, spread: int, seed: int) -> Image:
    """Add `noise` and clip to 0..255."""
    return (image + noise(*image.shape[:2], spread, seed)).clip(0, 255).astype(np.uint8)


def on_white(image: Image, height: int, width: int, top: int = 0, left: int = 0) -> Image:
    """Lay the image on a white sheet of height x width."""
    sheet = np.full((height, width, 3), 255, np.uint8)
    sheet[top : top + image.shape[0], left : left + image.shape[1]] = image
    return sheet


def tiled(image: Image, rows: int, columns: int) -> Image:
    """Repeat the image rows x columns times."""
    return np.tile(image, (rows, columns, 1))


def grey(image: Image) -> Image:
    """Return uint8 [H, W, 1]: the floor of the channels' mean."""
    return (image.sum(axis=2, keepdims=True, dtype=np.uint32) // 3).astype(np.uint8)


def ink_on_nothing(image: Image) -> Image:
    """Return RGBA: black whose alpha is 255 minus the page's grey value, so that white paper shows it as it was."""
    ink = 255 - grey(image)
    return np.concatenate([np.zeros_like(image), ink], axis=2)


def fading(image: Image) -> Image:
    """Return RGBA: the page's own colours, alpha rising from 96 at the left edge to 255 at the right."""
    width = image.shape[1]
    ramp = (96 + np.arange(width, dtype=np.uint32) * 159 // (width - 1)).astype(np.uint8)
    alpha = np.broadcast_to(ramp[None, :, None], (*image.shape[:2], 1))
    return np.concatenate([image, alpha], axis=2)


def checker(height: int, width: int, side: int) -> Image:
    """Return a black and white chess board."""
    rows, columns = np.indices((height, width)) // side
    board = ((rows + columns) % 2 * 255).astype(np.uint8)
    return board[:, :, None].repeat(3, axis=2)


def ramp(height: int, width: int) -> Image:
    """Return red rising to the right, green downwards, blue constant."""
    rows, columns = np.indices((height, width))
    planes = [columns * 255 // (width - 1), rows * 255 // (height - 1), np.full((height, width), 90)]
    return np.stack(planes, axis=2).astype(np.uint8)


# Top, bottom, left, right of the picture and of the block of two columns on the page.
PICTURE = np.s_[490:794, 128:1112]
COLUMNS = np.s_[860:1210, 110:1130]

DERIVATIONS: dict[str, Derivation] = {
    "page": Derivation(lambda page: page, "the demo's page as it is"),
    "page_half": Derivation(lambda page: scaled(page, 1, 2), "the page at 1/2"),
    "page_two_thirds": Derivation(lambda page: scaled(page, 2, 3), "the page at 2/3"),
    "page_noisy": Derivation(lambda page: with_noise(page, 24, 1), "the page with noise of +-24"),
    "page_negative": Derivation(lambda page: 255 - page, "the page's negative"),
    "page_tinted": Derivation(
        lambda page: page // np.array([1, 2, 3], np.uint8), "the page, green / 2 and blue / 3: tells RGB from BGR"
    ),
    "landscape_crop": Derivation(lambda page: page[840:1480], "the page's columns and table, 1240 x 640"),
    "odd_641x479": Derivation(lambda page: scaled(page, 2, 3)[560:1039, 90:731], "641 x 479 of the page at 2/3"),
    "odd_333x517": Derivation(lambda page: scaled(page, 1, 3)[40:557, 40:373], "333 x 517 of the page at 1/3"),
    "tiny_17x25": Derivation(lambda page: scaled(page, 1, 70), "the page at 1/70"),
    "tiny_16x16": Derivation(lambda page: page[600:616, 300:316], "16 x 16 of the picture"),
    "small_310x438": Derivation(lambda page: scaled(page, 1, 4), "the page at 1/4"),
    "wide_1600x200": Derivation(
        lambda page: on_white(page[880:1080], 200, 1600, left=180), "a strip of the columns on a white 1600 x 200"
    ),
    "line_1240x16": Derivation(lambda page: page[992:1008], "16 rows of the columns"),
    "tall_200x1600": Derivation(lambda page: page[100:1700, 120:320], "200 columns of the page"),
    "tall_column": Derivation(lambda page: page[840:1260, 100:620], "the left column alone"),
    "grey_page": Derivation(grey, "the page in grey, one channel"),
    "grey_crop": Derivation(lambda page: grey(page[1220:1620]), "table and last section in grey, one channel"),
    "rgba_ink": Derivation(ink_on_nothing, "RGBA, black ink on nothing"),
    "rgba_fading": Derivation(
        lambda page: fading(scaled(page, 1, 2)), "RGBA, the page at 1/2, alpha 96 to 255 from left to right"
    ),
    "large_columns_4000x2998": Derivation(
        lambda page: on_white(scaled(page[840:1620], 3, 1), 2998, 4000, 500, 140),
        "columns and table at 3 on 4000 x 2998",
    ),
    "sixteen_columns": Derivation(lambda page: tiled(page[COLUMNS], 4, 2), "the block of two columns, 2 x 4 times"),
    "stacked_tables": Derivation(
        lambda page: tiled(page[1270:1460], 8, 1), "the table 8 times without a gap: many overlapping candidates"
    ),
    "noise_320x240": Derivation(lambda page: with_noise(page[:240, :320] * 0 + 128, 127, 2), "noise, no page in it"),
    "checker_480x360": Derivation(lambda page: checker(360, 480, 30), "a chess board"),
    "ramp_500x400": Derivation(lambda page: ramp(400, 500), "two colour ramps"),
    "white_640x480": Derivation(lambda page: on_white(page[:1, :1], 480, 640), "white paper"),
    "half_row_2048x1025": Derivation(
        lambda page: scaled(on_white(page[COLUMNS], 513, 1024, 80), 2, 1)[:1025],
        "1025 rows: the scaled height is n + 1/2",
    ),
    "large_4000x3000": Derivation(
        lambda page: on_white(tiled(page, 1, 3), 3000, 4000, 200, 140), "three pages beside each other on 4000 x 3000"
    ),
    "two_pages": Derivation(
        lambda page: on_white(tiled(page, 1, 2), 1800, 2600, 23, 60), "two pages beside each other on 2600 x 1800"
    ),
    "photo": Derivation(lambda page: page[PICTURE], "the picture alone"),
    "photo_and_text": Derivation(lambda page: page[330:840], "abstract, picture and caption"),
}
