"""Masks of RF-DETR's segmentation head: one plane of logits per query, over the whole image.

A pixel belongs to the object where its logit, bilinear between the planes' cells, is above 0. The box does not crop it:
rfdetr's PostProcess has it so.

Payload: runs inside the server's python (3.9 or newer); needs numpy and opencv.
"""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from ..geometry import FloatArray, FrameGeometry
from ..results import InstanceMask

# Padding of the network's input is no object; so is what a crop left out.
NO_OBJECT = -1.0
# Products of larger logits overflow; no network means them.
LARGEST = 1e30


def instance_masks(planes: npt.NDArray[Any], query: npt.NDArray[Any], frame: FrameGeometry) -> tuple[InstanceMask, ...]:
    """Return one mask per detection; those of one query are one object.

    One at a time, and no larger than the object: what is held at source size is what is returned and one plane more.

    Args:
        planes: Mask logits [Q, h, w] over the network's input, h and w > 0.
        query: The query of each detection.
        frame: Where the image lies in the network's input.
    """
    masks = {index: _mask(planes[index], frame) for index in sorted(set(query.tolist()))}
    return tuple(masks[index] for index in query.tolist())


def _mask(plane: npt.NDArray[Any], frame: FrameGeometry) -> InstanceMask:
    """Return where the bilinear logit is above 0; an empty cut-out where no cell's is."""
    logits = np.clip(np.nan_to_num(plane.astype(np.float32), nan=NO_OBJECT), -LARGEST, LARGEST)
    if frame.resized != frame.network or frame.offset != (0, 0):
        logits = _on_image(logits, frame)
    inside = logits > 0
    if not inside.any():
        return InstanceMask(0, 0, np.zeros((0, 0), np.uint8))
    height, width = frame.source
    top, bottom = _reach(inside.any(axis=1), height)
    left, right = _reach(inside.any(axis=0), width)
    # Few rows are stretched to the full width, and only the object's columns of them to the full height.
    wide = _resized(logits, len(logits), width)[:, left:right]
    full = _resized(np.ascontiguousarray(wide), height, right - left)
    return InstanceMask(top, left, (full[top:bottom] > 0).view(np.uint8))


def _on_image(logits: FloatArray, frame: FrameGeometry) -> FloatArray:
    """Return the part of a plane [h, w] over the network's input that lies on the image, in network pixels."""
    plane = _resized(logits, *frame.network)
    (top, left), (height, width) = frame.offset, frame.resized
    image = np.full(frame.resized, NO_OBJECT, np.float32)
    seen = plane[max(top, 0) : top + height, max(left, 0) : left + width]
    image[max(-top, 0) :, max(-left, 0) :][: seen.shape[0], : seen.shape[1]] = seen
    return image


def _reach(inside: npt.NDArray[np.bool_], size: int) -> tuple[int, int]:
    """Return the first of `size` pixels, and the one after the last, to which cells that are `inside` contribute."""
    cells = np.flatnonzero(inside)
    pixels = size / len(inside)
    first = math.floor((cells[0] - 0.5) * pixels - 0.5) if cells[0] > 0 else 0
    last = math.ceil((cells[-1] + 1.5) * pixels - 0.5) if cells[-1] < len(inside) - 1 else size - 1
    return max(first, 0), min(last + 1, size)


def _resized(values: FloatArray, height: int, width: int) -> FloatArray:
    return np.asarray(cv2.resize(values, (width, height), interpolation=cv2.INTER_LINEAR), np.float32)
