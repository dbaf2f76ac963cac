"""How a source image becomes a network input, and boxes come back; training's own, not the product's.

Needs numpy and OpenCV only. Resizing is bilinear without anti-aliasing (the manifests' `interpolation: linear`).
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from training.scenes import Image

PADDING = 114
IMAGENET_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
IMAGENET_STD = np.array([0.229, 0.224, 0.225], np.float32)
Boxes = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Frame:
    """One resized image and the way back.

    Attributes:
        image: uint8 [side, side, 3], RGB.
        scale: Network pixels per source pixel, (x, y).
        offset: Network pixels of padding, (left, top).
    """

    image: Image
    scale: tuple[float, float]
    offset: tuple[int, int] = (0, 0)

    def to_network(self, boxes: Boxes) -> Boxes:
        """Map xyxy boxes [n, 4] from source to network pixels."""
        return boxes * np.array(self.scale * 2, np.float32) + np.array(self.offset * 2, np.float32)

    def to_source(self, boxes: Boxes) -> Boxes:
        """Map xyxy boxes [n, 4] from network to source pixels."""
        return (boxes - np.array(self.offset * 2, np.float32)) / np.array(self.scale * 2, np.float32)


def stretch(image: Image, side: int) -> Frame:
    """Resize to side x side, whatever the aspect ratio."""
    height, width = image.shape[:2]
    resized = cv2.resize(image, (side, side), interpolation=cv2.INTER_LINEAR)
    return Frame(resized, (side / width, side / height))


def letterbox(image: Image, side: int) -> Frame:
    """Resize to fit side x side, centred on grey 114 (as YOLO exporters do)."""
    height, width = image.shape[:2]
    ratio = side / max(height, width)
    inner = (round(height * ratio), round(width * ratio))
    top, left = (side - inner[0]) // 2, (side - inner[1]) // 2
    canvas = np.full((side, side, 3), PADDING, np.uint8)
    canvas[top : top + inner[0], left : left + inner[1]] = cv2.resize(
        image, (inner[1], inner[0]), interpolation=cv2.INTER_LINEAR
    )
    return Frame(canvas, (inner[1] / width, inner[0] / height), (left, top))


def to_tensor(image: Image, normalize: bool) -> npt.NDArray[np.float32]:
    """Return float32 [1, 3, H, W]: 0..1, with ImageNet's mean and deviation taken out when `normalize`."""
    values = image.astype(np.float32) / np.float32(255)
    if normalize:
        values = (values - IMAGENET_MEAN) / IMAGENET_STD
    return np.ascontiguousarray(values.transpose(2, 0, 1)[None])
