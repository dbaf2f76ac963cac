"""Boxes with a mask each: the head's last channels are coefficients of prototypes, an output of rank 4.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..class_rules import ClassRules
from ..contract import Array, DecodeError, DecoderConfig, shapes_of
from ..geometry import FrameGeometry
from ..results import Detections
from .masks import MaskRule
from .task import Selection
from .tasks_object_detection import ObjectDetection


class InstanceSegmentation(ObjectDetection):
    """Boxes are suppressed as those of plain detection; then every one that is left gets its mask."""

    def extra_channels(self, outputs: Sequence[Array], classes: int) -> tuple[int, ...]:
        """Return how many prototypes there are, whatever place among the outputs they have.

        Raises:
            DecodeError: There are none.
        """
        counts = tuple(dict.fromkeys(output.shape[1] for output in outputs if output.ndim == 4))
        if not counts:
            raise DecodeError(
                f"yolo: expected mask prototypes [B, M, h, w] beside the head, got {shapes_of(outputs)}; "
                "export the segmentation model with both outputs, or set task to object_detection"
            )
        return counts

    def finish(
        self,
        selection: Selection,
        outputs: Sequence[Array],
        image_index: int,
        frame: FrameGeometry,
        rules: ClassRules,
    ) -> Detections:
        """Return boxes and masks in source pixels.

        What has an empty mask is dropped, after `max_det` has been applied: Ultralytics has it so.

        Raises:
            DecodeError: The head has no coefficients for the prototypes.
        """
        prototypes = _prototypes(outputs, image_index, selection.extras.shape[1])
        boxes = frame.to_source(selection.boxes)
        has_area = (boxes[:, 2:] > boxes[:, :2]).all(axis=1)
        selection, boxes = selection.take(has_area), boxes[has_area]
        found = MaskRule(prototypes, frame).masks(selection.extras, selection.boxes)
        kept = np.array([mask is not None for mask in found], bool)
        detections = rules.detections(boxes[kept], selection.scores[kept], selection.class_ids[kept])
        return replace(detections, masks=tuple(mask for mask in found if mask is not None))


def _prototypes(outputs: Sequence[Array], image_index: int, count: int) -> Array:
    """Return the image's prototypes [count, h, w]."""
    found = [output for output in outputs if output.ndim == 4 and output.shape[1] == count]
    if not count or len(found) != 1 or len(found[0]) <= image_index or 0 in found[0].shape:
        raise DecodeError(
            f"yolo: expected one output [B, {count or 'M'}, h, w] of prototypes for the {count} mask coefficients of "
            f"the head, got {shapes_of(outputs)}; export the segmentation model's head and prototypes only"
        )
    return found[0][image_index]


def create(config: DecoderConfig) -> InstanceSegmentation:
    """Return the task."""
    return InstanceSegmentation(config)
