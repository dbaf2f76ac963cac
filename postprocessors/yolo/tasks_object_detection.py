"""Plain boxes: class-wise or class-agnostic suppression, back to source pixels.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..class_rules import ClassRules
from ..contract import Array, DecoderConfig
from ..geometry import FrameGeometry
from ..results import Detections
from .nms import suppress
from .task import Selection

# Keypoints of a person as COCO has them, x, y and visibility each: what a pose head of one class has beyond its box.
PERSON_KEYPOINTS = 17 * 3


class ObjectDetection:
    """Boxes only; channels of other tasks are let pass where something explains them, and are not read."""

    box_format = "xyxy"

    def __init__(self, config: DecoderConfig) -> None:
        settings = config.settings
        self._iou_threshold = float(settings["iou_threshold"])
        self._max_det = int(settings["max_det"])
        self._class_agnostic = bool(settings["class_agnostic"])
        points, values = settings.get("keypoints") or (0, 0)
        keypoints = int(points) * int(values)
        self._keypoints = keypoints or (PERSON_KEYPOINTS if int(settings["num_classes"]) == 1 else 0)

    def extra_channels(self, outputs: Sequence[Array], classes: int) -> tuple[int, ...]:
        """Return 0, and what keypoints or mask prototypes (an output of rank 4) explain."""
        prototypes = tuple(output.shape[1] for output in outputs if output.ndim == 4)
        return tuple(dict.fromkeys((0, *prototypes, self._keypoints)))

    def suppress(self, candidates: Selection) -> npt.NDArray[np.intp]:
        """Return the survivors of greedy suppression by IoU."""
        return suppress(
            candidates.boxes, candidates.class_ids, self._iou_threshold, self._max_det, self._class_agnostic
        )

    def finish(
        self,
        selection: Selection,
        outputs: Sequence[Array],
        image_index: int,
        frame: FrameGeometry,
        rules: ClassRules,
    ) -> Detections:
        """Return the boxes in source pixels, clipped to the image."""
        return rules.detections(frame.to_source(selection.boxes), selection.scores, selection.class_ids)


def create(config: DecoderConfig) -> ObjectDetection:
    """Return the task."""
    return ObjectDetection(config)
