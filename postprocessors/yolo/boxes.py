"""What the four numbers of a box mean: corners or centre and size, pixels or fractions.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..contract import Array, DecodeValueError
from ..geometry import MAX_COORDINATE, FloatArray, FrameGeometry, plausible

# A handful of boxes may lie in the image's first pixel by chance; a whole head does not.
WHOLE_HEAD = 100
# In an array: NumPy converts a bare number anew in every call.
HALF = np.array(0.5, np.float32)


class BoxRule:
    """Turns boxes as a head has them into boxes as the task wants them, in pixels of the network's input.

    Args:
        given: "xyxy" or "cxcywh": what the head holds.
        wanted: Likewise: what the task works on.
        normalized: true: fractions of the network's input; false: pixels; None: pixels, and what cannot be is refused.
    """

    def __init__(self, given: str, wanted: str, normalized: bool | None) -> None:
        self._given, self._wanted, self._normalized = given, wanted, normalized

    def prepare(self, boxes: Array, network: tuple[int, int]) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        """Return float32 boxes [n, 4] as the task wants them, and which of them are finite and have an area."""
        # By column: short rows are slow to go through.
        columns = np.ascontiguousarray(boxes.T, np.float32)
        if self._normalized:
            columns = columns * np.array([[network[1]], [network[0]]] * 2, np.float32)
        # What is no box becomes one without area.
        if np.count_nonzero(np.abs(columns) < MAX_COORDINATE) < columns.size:
            columns = np.where(plausible(columns.T), columns, np.float32(0))
        converted, positive = self._converted(columns)
        return converted.T, positive[0] & positive[1]

    def _converted(self, columns: FloatArray) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        """Return boxes [4, n] as the task wants them, and bool [2, n]: has a width, has a height."""
        low, high = columns[:2], columns[2:]
        if self._given == self._wanted:
            return columns, high > (0 if self._given == "cxcywh" else low)
        converted = np.empty_like(columns)
        if self._given == "xyxy":
            np.multiply(low + high, HALF, out=converted[:2])
            np.subtract(high, low, out=converted[2:])
            return converted, converted[2:] > 0
        half = high * HALF
        np.subtract(low, half, out=converted[:2])
        np.add(low, half, out=converted[2:])
        # A size that is lost in rounding is none.
        return converted, converted[2:] > converted[:2]

    def refuse_normalized(self, chosen: Array, whole: Array | None = None) -> None:
        """Raise if boxes that should be pixels are fractions of the image.

        Args:
            chosen: The boxes [n, 4] that count, as the head has them, with area.
            whole: Every box of the head [N, 4] where it is a raw one; few boxes are no evidence then.

        Raises:
            DecodeValueError: No number is above 1: the objects would all be smaller than a pixel.
        """
        if self._normalized is not None or not len(chosen):
            return
        # Of real pixels the first box says so already.
        if abs(chosen[0, 2]) > 1 or np.abs(chosen).max() > 1:
            return
        if whole is not None and (len(whole) < WHOLE_HEAD or not np.nanmax(np.abs(whole)) <= 1):
            return
        raise DecodeValueError(
            "yolo: every box coordinate is between 0 and 1, expected pixels of the network's input; "
            "set detection.boxes_normalized to true if they are fractions of it (a DETR export needs layout detr)"
        )


def clip_to_image(
    boxes: FloatArray, has_area: npt.NDArray[np.bool_], frame: FrameGeometry
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Return xyxy boxes [n, 4] cut off where the image ends in the network's input, and which still have an area.

    Some vendors do this before they suppress, which changes what overlaps what.
    """
    low = np.array((frame.offset if frame.pad is None else frame.pad)[::-1], np.float32)
    size = np.array(frame.source[::-1], np.float32) / np.array(frame.source_per_pixel[::-1], np.float32)
    clipped = np.clip(boxes.reshape(-1, 2, 2), low, low + size).reshape(-1, 4)
    return clipped, has_area & (clipped[:, 2:] > clipped[:, :2]).all(axis=1)
