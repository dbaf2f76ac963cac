"""Where an image lies in the network's input, and the way back to its own pixels.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]

# Beyond this, areas overflow float32; no image is that large.
MAX_COORDINATE = np.float32(1e9)


@dataclass(frozen=True)
class FrameGeometry:
    """How one source image became the network's input; every pair is (vertical, horizontal).

    Attributes:
        source: (height, width) of the source image, pixels.
        resized: (height, width) of the image inside the network input, without padding.
        network: (height, width) of the network input.
        offset: (top, left) padding, pixels of the network input; negative where the image was cropped.
        gain: Network pixels per source pixel by which boxes are mapped back; None means `resized / source`. Some
            vendors map back by the factor before rounding.
        pad: What is taken from boxes before, network pixels; None means `offset`. Some vendors use it unrounded.
    """

    source: tuple[int, int]
    resized: tuple[int, int]
    network: tuple[int, int]
    offset: tuple[int, int] = (0, 0)
    gain: tuple[float, float] | None = None
    pad: tuple[float, float] | None = None

    def to_source(self, boxes: FloatArray) -> FloatArray:
        """Map xyxy boxes [n, 4] from network-input pixels to source pixels, clipped to the image."""
        top, left = self.offset if self.pad is None else self.pad
        down, right = self.source_per_pixel
        moved = boxes - np.array([left, top, left, top], np.float32)
        moved *= np.array([right, down, right, down], np.float32)
        return self.clip(moved)

    def points_to_source(self, points: FloatArray) -> FloatArray:
        """Map x, y pairs [..., 2] from network-input pixels to source pixels, not clipped."""
        top, left = self.offset if self.pad is None else self.pad
        return (points - np.array([left, top], np.float32)) * np.array(self.source_per_pixel[::-1], np.float32)

    @property
    def source_per_pixel(self) -> tuple[float, float]:
        """Return source pixels per network pixel, (vertical, horizontal)."""
        if self.gain is not None:
            return 1 / self.gain[0], 1 / self.gain[1]
        return self.source[0] / self.resized[0], self.source[1] / self.resized[1]

    def clip(self, boxes: FloatArray) -> FloatArray:
        """Clip xyxy boxes [n, 4] in source pixels to the source image."""
        height, width = self.source
        limits = np.array([width, height, width, height], np.float32)
        clipped = np.minimum(boxes, limits)
        return np.maximum(clipped, np.float32(0), out=clipped)


def plausible(boxes: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which of the boxes [n, 4] have four finite numbers of a size that float32 can calculate with."""
    return (np.abs(boxes) < MAX_COORDINATE).all(axis=1)
