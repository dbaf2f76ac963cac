"""Any accepted image to RGB or grey."""

from __future__ import annotations

import numpy as np
import pytest

from runtimes.preprocessors.colour import to_grey, to_rgb


def test_every_colour_under_every_alpha() -> None:
    colour, alpha = np.meshgrid(np.arange(256), np.arange(256))
    image = np.stack([colour, 255 - colour, colour // 2, alpha], axis=2).astype(np.uint8)
    wide, alpha = image[:, :, :3].astype(np.int64), alpha[:, :, None]
    # Rounded division by 255, which knows no ties.
    expected = (wide * alpha + 255 * (255 - alpha) + 127) // 255
    np.testing.assert_array_equal(to_rgb(image), expected)


def test_rgb_is_not_copied() -> None:
    image = np.zeros((2, 2, 3), np.uint8)
    assert to_rgb(image) is image


def test_grey_is_replicated() -> None:
    image = np.arange(6, dtype=np.uint8).reshape(2, 3, 1)
    assert to_rgb(image).tolist() == np.repeat(image, 3, axis=2).tolist()


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_grey_of_a_grey_picture_is_itself(channels: int) -> None:
    level = np.arange(256, dtype=np.uint8).reshape(16, 16, 1)
    image = np.repeat(level, channels, axis=2)
    if channels == 4:
        image[:, :, 3] = 255
    np.testing.assert_array_equal(to_grey(image), level)
