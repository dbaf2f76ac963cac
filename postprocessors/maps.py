"""Where the pixels of a source image lie in a map that covers the network's input.

Payload: runs inside the server's python (3.9 or newer); needs numpy and opencv.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from .geometry import FrameGeometry


def centres(frame: FrameGeometry, axis: int, cells: int) -> npt.NDArray[np.float64]:
    """Return where the centres of the source's rows (axis 0) or columns (axis 1) lie in a map of `cells` cells.

    float64 [source side], rising; cell i reaches from i to i + 1. Below 0 or from `cells` on lies what the network's
    input does not show, which happens to images that were cropped only.
    """
    source, resized, network = frame.source[axis], frame.resized[axis], frame.network[axis]
    # One division of whole numbers: a centre on the border of two cells is exactly there.
    odd = 2 * np.arange(source, dtype=np.int64) + 1
    return (odd * resized + 2 * frame.offset[axis] * source) * cells / (2 * source * network)


def nearest_to_source(classes: npt.NDArray[Any], frame: FrameGeometry) -> npt.NDArray[np.uint8]:
    """Return class indices [h, w] of a map that covers the network's input at source size, uint8 [H, W].

    Each pixel gets the cell that its centre lies in; 0 where the network's input does not show it.
    """
    picture = np.ascontiguousarray(classes, np.uint8)
    if frame.resized == frame.network:
        # The same but for centres that lie on a border, where OpenCV's fixed point may take the other cell: stretched
        # images are what the capture world has, and it has OpenCV's.
        resized = cv2.resize(picture, frame.source[::-1], interpolation=cv2.INTER_NEAREST_EXACT)
        return np.asarray(resized, np.uint8).reshape(frame.source)
    for axis in (1, 0):
        cells = picture.shape[axis]
        places = np.floor(centres(frame, axis, cells)).astype(np.intp)
        picture = picture.take(places, axis=axis, mode="clip")
        unseen = np.flatnonzero((places < 0) | (places >= cells))
        if len(unseen):
            picture[(slice(None), unseen) if axis else unseen] = 0
    return picture
