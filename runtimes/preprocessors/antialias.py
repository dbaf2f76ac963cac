"""Antialiased bilinear resizing as Pillow does it, which torchvision and transformers do too; OpenCV has none.

A triangle filter as wide as the step between output pixels, first along rows, then along columns, bytes in between.
Weights are rounded as Pillow rounds them (22 bits), so that its results come out but for near-ties: at most 1 level.

Payload: runs inside the server's python (3.9 or newer); needs numpy and opencv.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from .colour import Image

FloatArray = npt.NDArray[np.float32]

# Source rows are made floats for so many output rows at a time, which keeps memory flat and in the cache.
_BLOCK = 32
# OpenBLAS gives larger products to threads of its own, which costs more than they are worth.
_PRODUCT = 8192
_LEAST_STRIP = 256
# Pillow rounds halves up, OpenCV to even; float32 sums of these weights are off by less.
_HALF_UP = 2.0**-16
_WEIGHT_ONE = 2.0**22


def resize_antialiased(image: Image, height: int, width: int) -> Image:
    """Return uint8 [height, width, C] of uint8 [H, W, C]."""
    rows, columns, channels = image.shape
    if columns != width:
        turned = np.asarray(cv2.transpose(image)).reshape(columns, rows * channels)
        turned = _resample(turned, width).reshape(width, rows, channels)
        image = np.asarray(cv2.transpose(turned), np.uint8).reshape(rows, width, channels)
    if rows != height:
        image = _resample(np.ascontiguousarray(image).reshape(rows, -1), height).reshape(height, width, channels)
    return image


def _resample(values: npt.NDArray[Any], length: int) -> Image:
    """Return uint8 [length, n] of uint8 [N, n]."""
    weights = _weights(len(values), length)
    blocks = [weights[first : first + _BLOCK] for first in range(0, length, _BLOCK)]
    spans = [(block[0][0], block[-1][0] + len(block[-1][1])) for block in blocks]
    strip = max(_PRODUCT // max(len(row) for _, row in weights), _LEAST_STRIP)
    # Kept for all of them: fresh memory costs more than what is done with it.
    floats = np.empty((max(end - start for start, end in spans), strip), np.float32)
    sums = np.empty((_BLOCK, strip), np.float32)
    result = np.empty((length, values.shape[1]), np.uint8)
    for left in range(0, values.shape[1], strip):
        part = result[:, left : left + strip]
        rows, totals = floats[:, : part.shape[1]], sums[:, : part.shape[1]]
        for first, (start, end), block in zip(range(0, length, _BLOCK), spans, blocks):
            np.copyto(rows[: end - start], values[start:end, left : left + strip])
            for (low, row), total in zip(block, totals):
                np.dot(row, rows[low - start : low - start + len(row)], out=total)
            part[first : first + _BLOCK] = cv2.convertScaleAbs(totals[: len(block)], alpha=1, beta=_HALF_UP)
    return result


@lru_cache(maxsize=64)
def _weights(length: int, wanted: int) -> tuple[tuple[int, FloatArray], ...]:
    """Return (first source pixel, weights) of each of `wanted` output pixels of a line of `length` pixels."""
    step = length / wanted
    reach = max(step, 1.0)
    centres = (np.arange(wanted) + 0.5) * step
    lows = np.maximum((centres - reach + 0.5).astype(int), 0)
    counts = np.minimum((centres + reach + 0.5).astype(int), length) - lows
    taps: npt.NDArray[Any] = np.arange(int(counts.max()))
    pixels = lows[:, None] + taps
    triangles = np.maximum(1 - np.abs((pixels - centres[:, None] + 0.5) / reach), 0)
    triangles[taps >= counts[:, None]] = 0
    shares = triangles / triangles.sum(axis=1, keepdims=True)
    rounded = (np.floor(shares * _WEIGHT_ONE + 0.5) / _WEIGHT_ONE).astype(np.float32)
    return tuple((low, row[:count]) for low, count, row in zip(lows.tolist(), counts.tolist(), rounded))
