"""The pictures: boxes drawn on the image, the mask blended into it, and their files.

Payload: runs inside the server's python (3.9 or newer); needs numpy and opencv. Images come in as RGB; in here they are
OpenCV's BGR, which is also what its encoders take, so that each image is copied and converted once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]

JPEG_QUALITY = 90
_GREEN = (0, 255, 0)
_BLACK = (0, 0, 0)
_LINE = 2
_FONT = cv2.FONT_HERSHEY_SIMPLEX
# Font scale per pixel of the image's shorter side, and its limits: legible on 4K, not the whole picture on a tile.
_SCALE_PER_PIXEL, _LEAST_SCALE, _MOST_SCALE = 1 / 1800, 0.4, 1.6


class EncodeError(ValueError):
    """OpenCV cannot write the picture; the text is one line."""


class _Box(NamedTuple):
    """A box in whole pixels inside the image; right and bottom are its last column and row."""

    left: int
    top: int
    right: int
    bottom: int


class _Label(NamedTuple):
    """A text and how it is drawn; width, and height above and below the baseline, in pixels."""

    text: str
    scale: float
    thickness: int
    width: int
    ascent: int
    descent: int


def draw_detections(image: Image, records: Sequence[Mapping[str, Any]]) -> Image:
    """Return a BGR copy, uint8 [H, W, 3], of the image with each record's box and label.

    Args:
        image: uint8 [H, W, C], RGB, grey or RGBA; not changed.
        records: Best first; the best is drawn last, on top. None: the plain image.
    """
    canvas = to_bgr(image)
    draw_boxes(canvas, records)
    draw_labels(canvas, records)
    return canvas


def draw_boxes(canvas: Image, records: Sequence[Mapping[str, Any]]) -> None:
    """Draw each record's box on a BGR picture, the best last."""
    for record in reversed(records):
        _draw_box(canvas, _whole_pixels(record["bounding_box"], canvas.shape))


def draw_labels(canvas: Image, records: Sequence[Mapping[str, Any]]) -> None:
    """Write each record's name and confidence into its box on a BGR picture, the best last."""
    for record in reversed(records):
        _draw_label(canvas, _whole_pixels(record["bounding_box"], canvas.shape), record)


def blend_mask(image: Image, mask: Image, background: tuple[int, int, int]) -> Image:
    """Return a BGR copy of the image, uint8 [H, W, 3], half mask wherever the mask is not background.

    Args:
        image: uint8 [H, W, C], RGB, grey or RGBA; not changed.
        mask: uint8 [H, W, 3], RGB.
        background: The mask colour that leaves the image as it is.
    """
    plain = to_bgr(image)
    blended = cv2.addWeighted(plain, 0.5, cv2.cvtColor(mask, cv2.COLOR_RGB2BGR), 0.5, 0)
    colour = np.array(background, np.uint8)
    cv2.copyTo(plain, cv2.inRange(mask, colour, colour), blended)
    return np.asarray(blended, np.uint8)


def to_bgr(image: Image) -> Image:
    """Return a new BGR image, uint8 [H, W, 3]: grey replicated, alpha composited on white."""
    channels = image.shape[2]
    if channels == 1:
        return np.asarray(cv2.cvtColor(image, cv2.COLOR_GRAY2BGR), np.uint8)
    if channels == 3:
        return np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2BGR), np.uint8)
    # c * a + 255 * (1 - a), written on the complement so that saturating bytes do: 255 - (255 - c) * a.
    alpha = cv2.cvtColor(np.ascontiguousarray(image[:, :, 3]), cv2.COLOR_GRAY2BGR)
    ink = cv2.bitwise_not(cv2.cvtColor(image, cv2.COLOR_RGBA2BGR))
    return np.asarray(cv2.bitwise_not(cv2.multiply(ink, alpha, scale=1 / 255)), np.uint8)


def encode_jpeg(picture: Image) -> Image:
    """Return a BGR picture as the bytes of a JPEG file, uint8 [n]."""
    return _encode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])


def encode_png(mask: Image) -> Image:
    """Return an RGB mask, uint8 [H, W, 3], as the bytes of a PNG file, uint8 [n]."""
    return _encode(".png", np.asarray(cv2.cvtColor(mask, cv2.COLOR_RGB2BGR), np.uint8), [])


def _encode(extension: str, picture: Image, settings: Sequence[int]) -> Image:
    height, width = picture.shape[:2]
    try:
        done, encoded = cv2.imencode(extension, picture, settings)
    except cv2.error as error:
        raise EncodeError(f"{width} x {height} pixels cannot be written as {extension}: {error.err}") from error
    if not done:
        raise EncodeError(f"{width} x {height} pixels cannot be written as {extension}")
    return np.asarray(encoded, np.uint8).reshape(-1)


def _whole_pixels(corners: Sequence[float], shape: tuple[int, ...]) -> _Box:
    """Return the pixels that the box [x1, y1, x2, y2] covers: at least one, inside the image."""
    height, width = shape[:2]
    left, top = min(max(round(corners[0]), 0), width - 1), min(max(round(corners[1]), 0), height - 1)
    right, bottom = min(round(corners[2]), width) - 1, min(round(corners[3]), height) - 1
    return _Box(left, top, max(right, left), max(bottom, top))


def _draw_box(canvas: Image, box: _Box) -> None:
    # One-pixel outlines, each inside the last: a thick outline would lie half outside the box, and the image.
    for inset in range(_LINE):
        first, last = (box.left + inset, box.top + inset), (box.right - inset, box.bottom - inset)
        if last[0] >= first[0] and last[1] >= first[1]:
            cv2.rectangle(canvas, first, last, _GREEN, 1)


def _draw_label(canvas: Image, box: _Box, record: Mapping[str, Any]) -> None:
    """Draw the label inside the box's upper right corner; above or below a box that it would hide by half or more.

    An image less than three labels high, or too narrow for the percentage, gets none: it would be all label.
    """
    height, width = canvas.shape[:2]
    label = _fit(_name_of(record), f"{round(record['confidence'] * 100)}%", (width, height), box.right - box.left + 1)
    margin = max(_LINE, round(4 * label.scale))
    band_width, band_height = label.width + 2 * margin, label.ascent + label.descent + 2 * margin
    if band_width > width or 3 * band_height > height:
        return
    left = max(box.right + 1 - band_width, 0)
    top = _band_top(box, band_height)
    cv2.rectangle(canvas, (left, top), (left + band_width - 1, top + band_height - 1), _GREEN, cv2.FILLED)
    origin = (left + margin, top + margin + label.ascent)
    cv2.putText(canvas, label.text, origin, _FONT, label.scale, _BLACK, label.thickness, cv2.LINE_AA)


def _band_top(box: _Box, band_height: int) -> int:
    """Return the band's first row; inside an image of three bands' height in each case."""
    if box.bottom - box.top + 1 >= 2 * band_height:
        return box.top
    return box.top - band_height if box.top >= band_height else box.bottom + 1


def _name_of(record: Mapping[str, Any]) -> str:
    """Return the name to draw: Hershey fonts have printable ASCII only."""
    name = str(record["class_label"])
    return name if name and name.isascii() and name.isprintable() else f"class_{record['class']}"


def _fit(name: str, percent: str, image_size: tuple[int, int], box_width: int) -> _Label:
    """Return the label at the image's font size, smaller where the box is narrow, shortened where the image is."""
    most = min(max(min(image_size) * _SCALE_PER_PIXEL, _LEAST_SCALE), _MOST_SCALE)
    least = min(most, max(most * 0.8, _LEAST_SCALE))
    label = _measure(f"{name} {percent}", most)
    margins = 2 * max(_LINE, round(4 * most))
    room = box_width - margins
    if label.width > room:
        label = _measure(label.text, max(most * max(room, 1) / label.width, least))
    room = image_size[0] - margins
    if label.width <= room:
        return label
    kept = int(len(label.text) * room / label.width) - len(f".. {percent}")
    return _measure(f"{name[:kept]}.. {percent}" if kept > 0 else percent, label.scale)


def _measure(text: str, scale: float) -> _Label:
    thickness = 1 if scale < 0.8 else 2
    (width, ascent), descent = cv2.getTextSize(text, _FONT, scale, thickness)
    return _Label(text, scale, thickness, width, ascent, descent)
