"""Any accepted image to RGB.

Payload: runs inside the server's python (3.9 or newer); needs numpy and opencv.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]


class ImageError(ValueError):
    """The request's image is not one; the text is one line with what was sent and what is accepted."""


def check_image(image: npt.NDArray[Any]) -> Image:
    """Return `image` if it is uint8 [H, W, C] with C 1, 3 or 4 and no empty side.

    Raises:
        ImageError: Anything else.
    """
    expected = "expected uint8 H x W x C with C 1, 3 or 4 (RGB order)"
    if image.dtype != np.uint8:
        raise ImageError(f"image: {expected}, got {image.dtype}")
    if image.ndim != 3 or image.shape[2] not in (1, 3, 4) or 0 in image.shape:
        raise ImageError(f"image: {expected}, got shape {list(image.shape)}")
    return image


def to_rgb(image: Image) -> Image:
    """Return uint8 [H, W, 3]: grey replicated, alpha composited on white, RGB as it is (not copied)."""
    channels = image.shape[2]
    if channels == 3:
        return image
    if channels == 1:
        return np.asarray(cv2.cvtColor(image, cv2.COLOR_GRAY2RGB), np.uint8)
    # c * a + 255 * (1 - a), written on the complement so that saturating bytes do: 255 - (255 - c) * a.
    alpha = cv2.cvtColor(np.ascontiguousarray(image[:, :, 3]), cv2.COLOR_GRAY2RGB)
    ink = cv2.bitwise_not(cv2.cvtColor(image, cv2.COLOR_RGBA2RGB))
    return np.asarray(cv2.bitwise_not(cv2.multiply(ink, alpha, scale=1 / 255)), np.uint8)


def to_grey(image: Image) -> Image:
    """Return uint8 [H, W, 1]: ITU-R BT.601 luma of the RGB image, a grey image as it is."""
    if image.shape[2] == 1:
        return image
    return np.asarray(cv2.cvtColor(to_rgb(image), cv2.COLOR_RGB2GRAY), np.uint8)[:, :, None]
