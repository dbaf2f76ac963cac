"""Boxes with keypoints: the head's last channels are x, y and, mostly, visibility of every point.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..class_rules import ClassRules
from ..contract import Array, DecodeError, DecoderConfig
from ..geometry import MAX_COORDINATE, FloatArray, FrameGeometry
from ..results import Detections
from .task import Selection
from .tasks_object_detection import PERSON_KEYPOINTS, ObjectDetection


class KeypointDetection(ObjectDetection):
    """Boxes are suppressed as those of plain detection; each keeps its points.

    The setting `keypoints` is [P, D], D being 3 (x, y, visibility) or 2 (x, y). Without it D is 3, and P what the
    head's channels say, if they say one thing only.
    """

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config)
        stated = config.settings.get("keypoints")
        self._points, self._values = (int(stated[0]), int(stated[1])) if stated else (0, 3)
        if self._values not in (2, 3):
            raise DecodeError(
                f"detection.keypoints: expected 2 or 3 numbers per point (x, y, visibility), got {self._values}; "
                "set it to the model's kpt_shape"
            )

    def extra_channels(self, outputs: Sequence[Array], classes: int) -> tuple[int, ...]:
        """Return the channels of the keypoints that are stated; else 51 (COCO's persons), else what the head leaves.

        Raises:
            DecodeError: Nothing is stated, and the channels could be points with visibility or without.
        """
        if self._points:
            return (self._points * self._values,)
        widths = [output.shape[axis] for output in outputs if output.ndim == 3 for axis in (1, 2)]
        bases = (4 + classes, 5 + classes, 6)
        if any(width == base + PERSON_KEYPOINTS for width in widths for base in bases):
            return (PERSON_KEYPOINTS,)
        # The shorter axis is that of the channels; rows have them last.
        heads = [output.shape for output in outputs if output.ndim == 3]
        left = [min(shape[1:]) - 4 - classes for shape in heads]
        left += [shape[2] - 6 for shape in heads if shape[2] < shape[1]]
        left = [count for count in dict.fromkeys(left) if count > 1]
        # Even multiples of 3 could be pairs as well; what is no multiple of 3 has no visibility.
        certain = tuple(count for count in left if count % 6 == 3)
        if not certain and left:
            raise DecodeError(
                f"yolo: expected {PERSON_KEYPOINTS} channels of keypoints (17 points of x, y, visibility) for "
                f"num_classes={classes}, got {left[0]}; set detection.keypoints to the model's kpt_shape, "
                "[points, numbers per point]"
            )
        return certain or (PERSON_KEYPOINTS,)

    def finish(
        self,
        selection: Selection,
        outputs: Sequence[Array],
        image_index: int,
        frame: FrameGeometry,
        rules: ClassRules,
    ) -> Detections:
        """Return boxes and keypoints in source pixels, both clipped to the image.

        Raises:
            DecodeError: The head has no channels for keypoints.
        """
        channels = selection.extras.shape[1]
        if not channels or channels % self._values:
            raise DecodeError(
                f"yolo: expected {self._values} channels for every keypoint behind boxes and scores, got {channels}; "
                "export the pose model's head, or set task to object_detection"
            )
        boxes = frame.to_source(selection.boxes)
        has_area = (boxes[:, 2:] > boxes[:, :2]).all(axis=1)
        points = selection.extras[has_area].reshape(-1, channels // self._values, self._values)
        detections = rules.detections(boxes[has_area], selection.scores[has_area], selection.class_ids[has_area])
        return replace(detections, keypoints=_keypoints(points, frame))


def _keypoints(points: FloatArray, frame: FrameGeometry) -> FloatArray:
    """Return x, y (source pixels, clipped to the image as Ultralytics has it) and visibility of [n, P, 2 or 3].

    Visibility is 1 where the head has none. It decides nothing: what is beyond 0..1 is cut off, not refused.
    What is no number becomes 0, 0, 0: COCO's point that is not labelled.
    """
    finite = (np.abs(points[..., :2]) < MAX_COORDINATE).all(axis=2) & np.isfinite(points).all(axis=2)
    points = np.where(finite[..., None], points, np.float32(0))
    found = np.empty((*points.shape[:2], 3), np.float32)
    height, width = frame.source
    found[..., :2] = np.clip(frame.points_to_source(points[..., :2]), 0, np.array([width, height], np.float32))
    found[..., 2] = np.clip(points[..., 2], 0, 1) if points.shape[2] == 3 else 1
    found[~finite] = 0
    return found


def create(config: DecoderConfig) -> KeypointDetection:
    """Return the task."""
    return KeypointDetection(config)
