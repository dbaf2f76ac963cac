"""What is drawn besides boxes: masks, rotated boxes, keypoints, heat.

Payload: runs inside the server's python (3.9 or newer); needs numpy and opencv. Pictures are OpenCV's BGR and are
changed in place where nothing is returned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from overlay import Image
from postprocessors.palette import colour_of

_GREEN = (0, 255, 0)
_BLACK = (0, 0, 0)
_LINE = 2
# A keypoint's visibility from which it is drawn.
_VISIBLE = 0.5
# Of the image's colours, how much heat may cover at most.
_HEAT = 0.6
# OpenCV draws with 32-bit numbers; what lies further out is not seen anyhow.
_FAR = 1e6
# COCO's text of run lengths, as in postprocessors/rle.py: five bits and "more follow", from this character on.
_BITS, _MORE, _FIRST = 5, 32, 48


def blend_objects(canvas: Image, masks: Sequence[Mapping[str, Any]], class_ids: Sequence[int]) -> None:
    """Blend each mask, COCO RLE of the canvas's size, half and half with its class's colour, the best last."""
    pixels = canvas.reshape(-1, 3)
    for mask, class_id in zip(reversed(masks), reversed(class_ids)):
        if mask["size"] != list(canvas.shape[:2]):
            raise ValueError(f"a mask of {mask['size']} on an image of {list(canvas.shape[:2])}")
        covered = mask_pixels(mask["counts"], canvas.shape[0], canvas.shape[1])
        # Index 0 of the palette is the background's.
        colour = np.array(colour_of(1 + class_id)[::-1], np.uint16)
        pixels[covered] = (pixels[covered] + colour) >> 1


def mask_pixels(counts: str, height: int, width: int) -> npt.NDArray[np.int64]:
    """Return which pixels of a picture, counted row by row, a mask of COCO's compressed runs covers; int64 [n].

    Raises:
        ValueError: The runs are not those of a mask of this size.
    """
    lengths = run_lengths(counts)
    if int(lengths.sum()) != height * width:
        raise ValueError(f"runs of a mask that are not those of {height} x {width} pixels")
    ends = np.cumsum(lengths)
    ones = lengths[1::2]
    # Column by column: start of its run, and place in it.
    within = np.arange(int(ones.sum())) - np.repeat(np.cumsum(ones) - ones, ones)
    column, row = np.divmod(np.repeat(ends[1::2] - ones, ones) + within, height)
    return row * width + column


def run_lengths(counts: str) -> npt.NDArray[np.int64]:
    """Return the lengths, int64 [n], of COCO's compressed text: what `to_string` in postprocessors/rle.py wrote."""
    pieces = np.frombuffer(counts.encode("ascii"), np.uint8).astype(np.int64) - _FIRST
    last = np.flatnonzero((pieces & _MORE) == 0)
    if not len(last):
        return np.zeros(0, np.int64)
    pieces = pieces[: last[-1] + 1]
    first = np.concatenate([[0], last[:-1] + 1])
    sizes = last + 1 - first
    places = np.arange(len(pieces)) - np.repeat(first, sizes)
    values = np.add.reduceat((pieces & (_MORE - 1)) << (_BITS * places), first)
    # The highest bit of a number's last piece is its sign.
    values -= np.where(pieces[last] & (_MORE >> 1), np.int64(1) << (_BITS * sizes), 0)
    # From the fourth on, each is what it is more than the one before the last.
    for parity in (1, 2):
        values[parity::2] = np.cumsum(values[parity::2])
    return values


def draw_polygons(canvas: Image, rotated: Sequence[Sequence[float]]) -> None:
    """Draw rotated boxes (cx, cy, w, h, radians), the best last."""
    for cx, cy, width, height, angle in reversed(rotated):
        cos, sin = math.cos(angle) / 2, math.sin(angle) / 2
        across, down = np.array([width * cos, width * sin]), np.array([-height * sin, height * cos])
        corners = np.array([cx, cy]) + np.stack([-across - down, across - down, across + down, down - across])
        points = np.clip(np.rint(corners), -_FAR, _FAR).astype(np.int32)
        cv2.polylines(canvas, [points], True, _GREEN, _LINE, cv2.LINE_AA)


def draw_points(canvas: Image, keypoints: Sequence[Sequence[Sequence[float]]]) -> None:
    """Draw the visible keypoints (x, y, visibility) of each object, one colour per point, the best last."""
    radius = max(2, round(min(canvas.shape[:2]) / 200))
    for points in reversed(keypoints):
        for index, (x, y, visibility) in enumerate(points):
            if visibility >= _VISIBLE:
                centre = round(min(max(x, -_FAR), _FAR)), round(min(max(y, -_FAR), _FAR))
                cv2.circle(canvas, centre, radius + 1, _BLACK, cv2.FILLED, cv2.LINE_AA)
                cv2.circle(canvas, centre, radius, colour_of(1 + index)[::-1], cv2.FILLED, cv2.LINE_AA)


def blend_heat(canvas: Image, heat: npt.NDArray[np.uint8], shown: Sequence[float]) -> Image:
    """Return the picture with a map over it: the hotter, the redder and the denser.

    Args:
        canvas: uint8 [H, W, 3], BGR.
        heat: uint8 [h, w].
        shown: top, left, height, width of the image in the map, as fractions of the map.
    """
    height, width = canvas.shape[:2]
    rows, columns = heat.shape
    top, left, tall, wide = shown
    across, down = wide * columns / width, tall * rows / height
    # Pixel centres to cell centres.
    to_map = np.array(
        [[across, 0, left * columns + across / 2 - 0.5], [0, down, top * rows + down / 2 - 0.5]], np.float64
    )
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    wide_heat = cv2.warpAffine(heat, to_map, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    share = np.asarray(wide_heat, np.float32) * np.float32(_HEAT / 255)
    colours = cv2.applyColorMap(wide_heat, cv2.COLORMAP_JET)
    return np.asarray(cv2.blendLinear(canvas, colours, 1 - share, share), np.uint8)
