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
    taps = max(len(row) for _, row in weights)
    result = np.empty((length, values.shape[1]), np.uint8)
    strip = max(_PRODUCT // taps, 256)
    for first in range(0, values.shape[1], strip):
        part = slice(first, first + strip)
        _resample_strip(values[:, part], weights, result[:, part])
    return result


def _resample_strip(values: npt.NDArray[Any], weights: tuple[tuple[int, FloatArray], ...], result: Image) -> None:
    sums = np.empty((_BLOCK, values.shape[1]), np.float32)
    for first in range(0, len(weights), _BLOCK):
        block = weights[first : first + _BLOCK]
        start, end = block[0][0], block[-1][0] + len(block[-1][1])
        floats = values[start:end].astype(np.float32)
        for (low, row), total in zip(block, sums):
            np.dot(row, floats[low - start : low - start + len(row)], out=total)
        result[first : first + len(block)] = cv2.convertScaleAbs(sums[: len(block)], alpha=1, beta=_HALF_UP)


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
