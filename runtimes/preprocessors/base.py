"""The reference preprocessor: resize, pad, then one table look-up per channel.

Payload: runs inside the server's python (3.9 or newer); needs numpy and opencv.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from .antialias import resize_antialiased
from .colour import Image, ImageError, check_image, to_grey, to_rgb
from .placement import Placement, place, rules_of

__all__ = ["BasePreprocessor", "Placement", "place"]

Canvas = npt.NDArray[Any]

INTERPOLATION = {
    "area": cv2.INTER_AREA,
    "cubic": cv2.INTER_CUBIC,
    "linear": cv2.INTER_LINEAR,
    "nearest": cv2.INTER_NEAREST,
}
# What both the YOLO and the DETR exporters pad with.
PAD_VALUE = 114
# Of an image that is cropped: resized by its shortest edge, a line of pixels would become an image without end.
MAX_ASPECT = 100


class BasePreprocessor:
    """Images to one network batch.

    Args:
        settings: model.json's `preprocess`: height, width, channels (1 or 3), layout (NCHW or NHWC), interpolation,
            preserve_aspect, image_range_scale (pixels divided by 255), mean and std per channel in RGB order or None,
            channel_order (rgb or bgr). Optional: pad_value (0 to 255, what the YOLO exporters pad with when absent),
            resize_dtype ("float32": the image is made floats before it is resized), and the fields of `Rules`.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.network: tuple[int, int] = (int(settings["height"]), int(settings["width"]))
        self.channels = int(settings["channels"])
        self._nhwc = settings["layout"] == "NHWC"
        self._interpolation: str = settings["interpolation"]
        self._preserve_aspect = bool(settings["preserve_aspect"])
        self._rules = rules_of(settings)
        self._padding = (settings.get("pad_value", PAD_VALUE),) * 4
        self._as_floats = settings.get("resize_dtype") == "float32"
        self._tables = _value_tables(settings, self.channels)
        self._scales = _value_scales(settings, self.channels)
        self._planes = list(range(self.channels))
        if settings["channel_order"] == "bgr":
            self._planes.reverse()

    def __call__(self, images: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[np.float32], list[Placement]]:
        """Return float32 [B, C, H, W] (or [B, H, W, C]), contiguous, and one Placement per image.

        Raises:
            ImageError: An image is not uint8 [H, W, C] with C 1, 3 or 4, or is a line that would have to be cropped.
        """
        checked = [check_image(image) for image in images]
        placements = [self._place((image.shape[0], image.shape[1])) for image in checked]
        batch = np.empty((len(checked), self.channels, *self.network), np.float32)
        for image, placement, planes in zip(checked, placements, batch):
            self._fill(planes, image, placement)
        return (np.ascontiguousarray(batch.transpose(0, 2, 3, 1)) if self._nhwc else batch), placements

    def _place(self, source: tuple[int, int]) -> Placement:
        placement = place(source, self.network, self._preserve_aspect, self._rules)
        if max(placement.resized) > MAX_ASPECT * max(self.network):
            raise ImageError(
                f"image: expected sides of at most 1 : {MAX_ASPECT}, because the network crops, "
                f"got {source[0]} x {source[1]} (height x width)"
            )
        return placement

    def _fill(self, planes: npt.NDArray[np.float32], image: Image, placement: Placement) -> None:
        colours = to_grey(image) if self.channels == 1 else to_rgb(image)
        if self._as_floats:
            canvas = self._resize(colours.astype(np.float32), placement)
            for target, channel in zip(planes, self._planes):
                unit, mean, std = self._scales[channel]
                np.divide(canvas[:, :, channel] / unit - mean, std, out=target)
            return
        canvas = self._resize(colours, placement)
        for target, channel in zip(planes, self._planes):
            cv2.LUT(cv2.extractChannel(canvas, channel), self._tables[channel], dst=target)

    def _resize(self, image: Canvas, placement: Placement) -> Canvas:
        height, width = placement.resized
        if image.shape[:2] != placement.resized:
            if self._interpolation == "antialias":
                image = resize_antialiased(image, height, width)
            else:
                image = np.asarray(cv2.resize(image, (width, height), interpolation=INTERPOLATION[self._interpolation]))
        (top, left), (rows, columns) = placement.offset, placement.network
        if height > rows or width > columns:
            image = image.reshape(height, width, -1)[-top : rows - top, -left : columns - left]
        elif placement.resized != placement.network:
            bottom, right = rows - height - top, columns - width - left
            image = np.asarray(
                cv2.copyMakeBorder(image, top, bottom, left, right, cv2.BORDER_CONSTANT, value=self._padding)
            )
        return image.reshape(*placement.network, -1)


def _value_tables(settings: Mapping[str, Any], channels: int) -> list[npt.NDArray[np.float32]]:
    """Return the network's value of each of the 256 pixel values, float32 [256] per channel in RGB order.

    A table makes every combination of scale, mean and std one look-up, with the very float32 arithmetic of
    `(pixel / 255 - mean) / std`.
    """
    pixels = np.arange(256, dtype=np.float32)
    return [(pixels / unit - mean) / std for unit, mean, std in _value_scales(settings, channels)]


def _value_scales(settings: Mapping[str, Any], channels: int) -> list[tuple[np.float32, np.float32, np.float32]]:
    """Return (unit, mean, std) of `(pixel / unit - mean) / std` per channel in RGB order."""
    unit = np.float32(255 if settings["image_range_scale"] else 1)
    means, stds = settings["mean"] or [0] * channels, settings["std"] or [1] * channels
    return [(unit, np.float32(mean), np.float32(std)) for mean, std in zip(means, stds)]
