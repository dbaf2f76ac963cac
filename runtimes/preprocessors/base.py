"""The reference preprocessor: resize on uint8, then one table look-up per channel.

Payload: runs inside the server's python (3.9 or newer); needs numpy and opencv.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from .colour import Image, check_image, to_grey, to_rgb

INTERPOLATION = {
    "area": cv2.INTER_AREA,
    "cubic": cv2.INTER_CUBIC,
    "linear": cv2.INTER_LINEAR,
    "nearest": cv2.INTER_NEAREST,
}
# What both the YOLO and the DETR exporters pad with.
PAD_VALUE = 114


class Placement(NamedTuple):
    """Where one image lies in the network's input; every pair is (vertical, horizontal), pixels."""

    source: tuple[int, int]
    resized: tuple[int, int]
    network: tuple[int, int]
    offset: tuple[int, int]


def place(source: tuple[int, int], network: tuple[int, int], preserve_aspect: bool) -> Placement:
    """Return where an image of size `source` goes in a network input of size `network`, both (height, width).

    With `preserve_aspect` the image is scaled by one factor and centred; rounding is that of the Ultralytics
    letterbox (half to even, an odd pixel of padding goes to the bottom and the right).
    """
    if not preserve_aspect:
        return Placement(source, network, network, (0, 0))
    gain = min(network[0] / source[0], network[1] / source[1])
    height, width = (max(round(side * gain), 1) for side in source)
    top, left = round((network[0] - height) / 2 - 0.1), round((network[1] - width) / 2 - 0.1)
    return Placement(source, (height, width), network, (top, left))


class BasePreprocessor:
    """Images to one network batch.

    Args:
        settings: model.json's `preprocess`: height, width, channels (1 or 3), layout (NCHW or NHWC), interpolation,
            preserve_aspect, image_range_scale (pixels divided by 255), mean and std per channel in RGB order or None,
            channel_order (rgb or bgr).
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.network: tuple[int, int] = (int(settings["height"]), int(settings["width"]))
        self.channels = int(settings["channels"])
        self._nhwc = settings["layout"] == "NHWC"
        self._interpolation = INTERPOLATION[settings["interpolation"]]
        self._preserve_aspect = bool(settings["preserve_aspect"])
        self._tables = _value_tables(settings, self.channels)
        self._planes = list(range(self.channels))
        if settings["channel_order"] == "bgr":
            self._planes.reverse()

    def __call__(self, images: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[np.float32], list[Placement]]:
        """Return float32 [B, C, H, W] (or [B, H, W, C]), contiguous, and one Placement per image.

        Raises:
            ImageError: An image is not uint8 [H, W, C] with C 1, 3 or 4.
        """
        checked = [check_image(image) for image in images]
        placements = [place((image.shape[0], image.shape[1]), self.network, self._preserve_aspect) for image in checked]
        batch = np.empty((len(checked), self.channels, *self.network), np.float32)
        for image, placement, planes in zip(checked, placements, batch):
            self._fill(planes, image, placement)
        return (np.ascontiguousarray(batch.transpose(0, 2, 3, 1)) if self._nhwc else batch), placements

    def _fill(self, planes: npt.NDArray[np.float32], image: Image, placement: Placement) -> None:
        colours = to_grey(image) if self.channels == 1 else to_rgb(image)
        canvas = self._resize(colours, placement)
        for target, channel in zip(planes, self._planes):
            cv2.LUT(cv2.extractChannel(canvas, channel), self._tables[channel], dst=target)

    def _resize(self, image: Image, placement: Placement) -> Image:
        height, width = placement.resized
        if image.shape[:2] != placement.resized:
            image = np.asarray(cv2.resize(image, (width, height), interpolation=self._interpolation), np.uint8)
        if placement.resized != placement.network:
            (top, left), (rows, columns) = placement.offset, placement.network
            bottom, right = rows - height - top, columns - width - left
            padding = (PAD_VALUE,) * 4
            border = cv2.copyMakeBorder(image, top, bottom, left, right, cv2.BORDER_CONSTANT, value=padding)
            image = np.asarray(border, np.uint8)
        return image.reshape(*placement.network, -1)


def _value_tables(settings: Mapping[str, Any], channels: int) -> list[npt.NDArray[np.float32]]:
    """Return the network's value of each of the 256 pixel values, float32 [256] per channel in RGB order.

    A table makes every combination of scale, mean and std one look-up, with the very float32 arithmetic of
    `(pixel / 255 - mean) / std`.
    """
    pixels = np.arange(256, dtype=np.float32)
    if settings["image_range_scale"]:
        pixels = pixels / np.float32(255)
    if settings["mean"] is None:
        return [pixels] * channels
    mean, std = np.asarray(settings["mean"], np.float32), np.asarray(settings["std"], np.float32)
    return [(pixels - mean[channel]) / std[channel] for channel in range(channels)]
