"""Which classes are kept, at which score, under which name.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from .contract import DecodeError
from .results import Detections

FloatArray = npt.NDArray[np.float32]


class ClassRules:
    """Which classes are kept, at which score, under which name.

    Args:
        settings: `score_threshold`; optional `class_thresholds` {name: t}, `classes` (ids or names that are kept),
            `compare` ("greater" keeps score > threshold, anything else score >= threshold).
        class_names: Names by class id.
        columns: How many class ids the head can give.

    Attributes:
        names: Every class id's name.
        lowest: What a score must reach (>=) to reach any class's threshold.
        uniform: Every class is kept, at the same score: whatever reaches `lowest` and is no more than 1 passes.

    Raises:
        DecodeError: `settings` speaks of a class that the head cannot give.
    """

    def __init__(self, settings: Mapping[str, Any], class_names: Sequence[str], columns: int) -> None:
        self.names = tuple(label_of(class_names, class_id) for class_id in range(columns))
        self._stated = [float(settings["score_threshold"])] * columns
        per_class = cast("Mapping[str, float]", settings.get("class_thresholds") or {})
        for name, threshold in per_class.items():
            self._stated[self._id_of(name)] = float(threshold)
        # Compared in float32, as scores are: a score of exactly the threshold counts on every platform.
        self._thresholds: FloatArray = np.array(self._stated, np.float32)
        self._kept = np.ones(columns, bool)
        kept = settings.get("classes")
        if kept is not None:
            self._kept[:] = False
            self._kept[[self._id_of(wanted) for wanted in kept]] = True
        self._strict = settings.get("compare") == "greater"
        lowest = self._thresholds.min(initial=np.inf)
        # The next number above the threshold: reaching it is being above the threshold.
        self.lowest = np.nextafter(lowest, np.float32(np.inf)) if self._strict else np.float32(lowest)
        self.uniform = bool(self._kept.all() and (self._thresholds == lowest).all() and self.lowest <= 1)

    def _id_of(self, wanted: str | int) -> int:
        if isinstance(wanted, str) and wanted in self.names:
            return self.names.index(wanted)
        if isinstance(wanted, int) and 0 <= wanted < len(self.names):
            return wanted
        raise DecodeError(f"detection: expected one of the model's {len(self.names)} classes, got {wanted!r}")

    def passes(self, scores: FloatArray, class_ids: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return which of the scores [n] reach their class's threshold; NaN never does."""
        limits = self._thresholds[class_ids]
        reached = scores > limits if self._strict else scores >= limits
        return reached & self._kept[class_ids]

    def detections(self, boxes: FloatArray, scores: FloatArray, class_ids: npt.NDArray[Any]) -> Detections:
        """Return Detections of clipped source-pixel boxes, given best first; boxes without area are dropped."""
        has_sides = boxes[:, 2:] > boxes[:, :2]
        if np.count_nonzero(has_sides) < has_sides.size:
            kept = has_sides.all(axis=1)
            boxes, scores, class_ids = boxes[kept], scores[kept], class_ids[kept]
        ids: list[int] = class_ids.tolist()
        return Detections(
            np.ascontiguousarray(boxes),
            scores,
            class_ids.astype(np.int32),
            tuple([self.names[class_id] for class_id in ids]),
            tuple([self._stated[class_id] for class_id in ids]),
        )


def label_of(class_names: Sequence[str], class_id: int) -> str:
    """Return the class's name, or `class_<id>` where the package names none."""
    if 0 <= class_id < len(class_names) and class_names[class_id]:
        return class_names[class_id]
    return f"class_{class_id}"
