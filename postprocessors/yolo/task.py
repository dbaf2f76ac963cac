"""What a task does with the boxes that a YOLO head gives: detection, masks, keypoints, rotated boxes.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
A task is the module `tasks_<task>.py`; it has `create(config) -> Task`.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..class_rules import ClassRules
from ..contract import Array, DecoderConfig
from ..geometry import FloatArray, FrameGeometry
from ..results import Detections

FIRST_TASK = "object_detection"


@dataclass(frozen=True)
class Selection:
    """Boxes of one image, best first.

    Attributes:
        boxes: float32 [n, 4] in pixels of the network input, not clipped, as the task's `box_format` says; finite,
            with area.
        scores: float32 [n], 0..1, falling.
        class_ids: intp [n], below the number of classes.
        extras: float32 [n, E], the channels beyond boxes and classes in the head's order; may hold any number, NaN too.
    """

    boxes: FloatArray
    scores: FloatArray
    class_ids: npt.NDArray[np.intp]
    extras: FloatArray

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, rows: Any) -> Selection:  # noqa: ANN401 - whatever indexes an array: slice, numbers, booleans
        """Return the selection of these rows, in their order."""
        return Selection(self.boxes[rows], self.scores[rows], self.class_ids[rows], self.extras[rows])


class Task(Protocol):
    """One task of the family; made from the decoder's config, whose settings it reads itself.

    Attributes:
        box_format: "xyxy" or "cxcywh": what `suppress` and `finish` are given, and what an end-to-end head of this task
            holds where nothing else says so (rotated boxes come as cx, cy, w, h).
    """

    box_format: str

    def extra_channels(self, outputs: Sequence[Array], classes: int) -> tuple[int, ...]:
        """Return how many channels a head may have beyond its boxes and `classes` scores, likeliest first.

        Args:
            outputs: Every raw output of the batch; prototypes among them explain 32 channels, say.
            classes: How many classes the package states.
        """
        ...

    def suppress(self, candidates: Selection) -> npt.NDArray[np.intp]:
        """Return the rows of `candidates` that survive, in order, at most the package's `max_det`.

        Not called for heads whose graph has suppressed already.
        """
        ...

    def finish(
        self,
        selection: Selection,
        outputs: Sequence[Array],
        image_index: int,
        frame: FrameGeometry,
        rules: ClassRules,
    ) -> Detections:
        """Return what leaves the decoder for one image, in source pixels.

        Args:
            selection: The boxes that are left, at most `max_det`.
            outputs: Every raw output of the batch, as the runner gave it.
            image_index: The image's place along the outputs' batch axis.
            frame: Where the image lies in the network's input.
            rules: Names and thresholds; its `detections` clips nothing and drops boxes without area.
        """
        ...


def make_task(config: DecoderConfig) -> Task:
    """Return the task that `config.task` names; the family's first where it names none."""
    module = importlib.import_module(f"{__package__}.tasks_{config.task or FIRST_TASK}")
    return module.create(config)
