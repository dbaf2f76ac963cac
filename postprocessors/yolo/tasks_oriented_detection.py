"""Rotated boxes: the head's last channel is the angle.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..class_rules import ClassRules
from ..contract import Array, DecodeError, DecoderConfig
from ..geometry import FloatArray, FrameGeometry
from ..results import Detections
from . import rotated
from .task import Selection


class OrientedDetection:
    """Boxes cx, cy, w, h and an angle in radians, suppressed by probabilistic IoU."""

    box_format = "cxcywh"

    def __init__(self, config: DecoderConfig) -> None:
        settings = config.settings
        self._iou_threshold = float(settings["iou_threshold"])
        self._max_det = int(settings["max_det"])
        self._class_agnostic = bool(settings["class_agnostic"])

    def extra_channels(self, outputs: Sequence[Array], classes: int) -> tuple[int, ...]:
        """Return 1: the angle."""
        return (1,)

    def suppress(self, candidates: Selection) -> npt.NDArray[np.intp]:
        """Return the survivors; what has no finite angle is no box.

        Raises:
            DecodeError: The head has no channel for the angle.
        """
        angles = _angles(candidates)
        finite = np.flatnonzero(np.isfinite(angles))
        candidates = candidates.take(finite)
        survivors = rotated.suppress(
            candidates.boxes,
            angles[finite],
            candidates.class_ids,
            self._iou_threshold,
            self._max_det,
            self._class_agnostic,
        )
        return finite[survivors]

    def finish(
        self,
        selection: Selection,
        outputs: Sequence[Array],
        image_index: int,
        frame: FrameGeometry,
        rules: ClassRules,
    ) -> Detections:
        """Return rotated boxes in source pixels, not clipped, and the boxes around them, clipped to the image.

        What lies outside the image is dropped.

        Raises:
            DecodeError: The head has no channel for the angle.
        """
        angles = _angles(selection)
        selection, angles = selection.take(np.isfinite(angles)), angles[np.isfinite(angles)]
        turned = rotated.to_source(selection.boxes, angles, frame)
        boxes = frame.clip(rotated.enclosing(turned))
        kept = (boxes[:, 2:] > boxes[:, :2]).all(axis=1)
        detections = rules.detections(boxes[kept], selection.scores[kept], selection.class_ids[kept])
        return replace(detections, rotated=turned[kept])


def _angles(selection: Selection) -> FloatArray:
    if selection.extras.shape[1] != 1:
        raise DecodeError(
            f"yolo: expected one channel behind boxes and scores, the angle, got {selection.extras.shape[1]}; "
            "export the oriented model's head, or set task to object_detection"
        )
    return selection.extras[:, 0]


def create(config: DecoderConfig) -> OrientedDetection:
    """Return the task."""
    return OrientedDetection(config)
