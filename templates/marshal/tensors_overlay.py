"""The tensors profile's picture: `overlay_detections` of base drawn on the image, as a JPEG.

base's tensors_outputs.py says what `overlay_detections` holds; spaces or zero bytes behind it are padding, nothing at
all is an image on which nothing was found.

Payload: runs inside the server's python (3.9 or newer); needs numpy and opencv.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import cv2
import numpy as np
import numpy.typing as npt

from capture_request import RequestError, check_image
from overlay import Image, blend_mask, draw_boxes, draw_labels, encode_jpeg, to_bgr
from overlay_shapes import blend_heat, blend_objects, draw_points, draw_polygons
from postprocessors.palette import BACKGROUND, colour_mask

Json = dict[str, Any]

_PADDING = b" \0"


def draw_batch(images: npt.NDArray[Any], drawn: npt.NDArray[Any]) -> Image:
    """Return the JPEG files, uint8 [B, n], those that are shorter than the longest filled up with zero bytes.

    Args:
        images: uint8 [B, H, W, 3], RGB.
        drawn: uint8 [B, n], what base says of each.

    Raises:
        RequestError: An image is not one, or `drawn` does not come from this model's base.
        EncodeError: The picture cannot be written as a JPEG.
    """
    if images.ndim != 4 or drawn.ndim != 2 or len(images) != len(drawn) or not len(images):
        raise RequestError(
            f"input: expected images [B, H, W, 3] and overlay_detections [B, n], "
            f"got {list(images.shape)} and {list(drawn.shape)}"
        )
    files = [encode_jpeg(draw(check_image(image), content.tobytes())) for image, content in zip(images, drawn)]
    if len(files) == 1:
        return files[0][np.newaxis]
    joined = np.zeros((len(files), max(map(len, files))), np.uint8)
    for row, file in zip(joined, files):
        row[: len(file)] = file
    return joined


def draw(image: Image, content: bytes) -> Image:
    """Return the image, BGR, with what base found drawn on it.

    Raises:
        RequestError: `content` does not come from this model's base.
    """
    try:
        head, newline, plane = content.partition(b"\n")
        text = (head if newline else content).strip(_PADDING)
        described = cast("Json", json.loads(text)) if text else {}
        if "kind" in described:
            return _draw_plane(image, described, plane)
        return _draw_objects(image, described)
    # What a caller may send instead of base's own is unlimited, and so is what fails on it.
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, cv2.error) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise RequestError(f"overlay_detections: expected what this model's base returns, got {reason}") from error


def _draw_objects(image: Image, described: Json) -> Image:
    records: Sequence[Json] = described.get("detections", [])
    canvas = to_bgr(image)
    blend_objects(canvas, described.get("masks", []), [int(record["class"]) for record in records])
    if described.get("rotated"):
        draw_polygons(canvas, described["rotated"])
    else:
        draw_boxes(canvas, records)
    draw_points(canvas, described.get("keypoints", []))
    draw_labels(canvas, records)
    return canvas


def _draw_plane(image: Image, described: Json, content: bytes) -> Image:
    height, width = described["size"]
    plane = np.frombuffer(content, np.uint8, count=height * width).reshape(height, width)
    if described["kind"] == "heat":
        return blend_heat(to_bgr(image), plane, described["shown"])
    if described["kind"] == "classes":
        return blend_mask(image, colour_mask(plane), BACKGROUND)
    return to_bgr(image)
