"""YOLO heads: v5 to v12 and 26, YOLOX, YOLO-NAS, PP-YOLOE, raw or with NMS in the graph.

Every export is one of two kinds: raw (a box and class scores per anchor: threshold, then the task's suppression) or
chosen (rows of box, score, class: threshold only). outputs.py and heads.py say how one is told from the other, boxes.py
what the four numbers of a box are, tasks_*.py what else is made of them.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..class_rules import ClassRules
from ..contract import Array, DecoderConfig
from ..geometry import FrameGeometry
from ..results import Detections
from .boxes import BoxRule, clip_to_image
from .candidates import find_candidates
from .finished import select_rows
from .images import RawImage, Rows
from .outputs import Batch, Image, OutputRule
from .task import Selection, make_task


class YoloDecoder:
    """One package's decoder; safe for several threads."""

    def __init__(self, config: DecoderConfig) -> None:
        settings = config.settings
        self._rules = ClassRules(settings, config.class_names, int(settings["num_classes"]))
        self._max_det = int(settings["max_det"])
        self._multi_label = bool(settings.get("multi_label"))
        self._task = make_task(config)
        # Rotated boxes have no edges that an image could cut.
        self._clip_first = bool(settings.get("clip_before_nms")) and self._task.box_format == "xyxy"
        self._outputs = OutputRule(config, self._task)
        given, wanted, normalized = settings.get("box_format"), self._task.box_format, settings.get("boxes_normalized")
        self._raw_boxes = BoxRule(given or "cxcywh", wanted, normalized)
        self._pair_boxes = BoxRule(given or "xyxy", wanted, normalized)
        self._row_boxes = BoxRule(given or wanted, wanted, normalized)

    def __call__(self, outputs: Sequence[Array], frames: Sequence[FrameGeometry]) -> list[Detections]:
        """Decode the outputs of one batch; one Detections per frame, empty when nothing is found.

        Raises:
            DecodeError: No output has a shape that outputs.py documents.
            DecodeValueError: The numbers cannot be what they should be: scores above 1, classes that the package does
                not state, fractions for pixels.
        """
        if not frames:
            return []
        batch = self._outputs.batch(outputs, frames)
        return [self._decode_image(batch, outputs, index, frame) for index, frame in enumerate(frames)]

    def _decode_image(
        self, batch: Batch, outputs: Sequence[Array], image_index: int, frame: FrameGeometry
    ) -> Detections:
        selection = self._selection(batch.image(image_index), batch.pair, frame)
        return self._task.finish(selection, outputs, image_index, frame, self._rules)

    def _selection(self, image: Image, pair: bool, frame: FrameGeometry) -> Selection:
        if isinstance(image, Rows):
            return select_rows(image, self._rules, self._row_boxes, frame.network, self._max_det)
        candidates = self._candidates(image, self._pair_boxes if pair else self._raw_boxes, frame)
        kept = self._task.suppress(candidates)[: self._max_det]
        boxes = candidates.boxes.T.take(kept, axis=1).T
        extras = candidates.extras.take(kept, axis=0)
        return Selection(boxes, candidates.scores.take(kept), candidates.class_ids.take(kept), extras)

    def _candidates(self, image: RawImage, box_rule: BoxRule, frame: FrameGeometry) -> Selection:
        found = find_candidates(image.scores, self._rules, self._multi_label)
        taken = image.boxes_of(found.anchors)
        boxes, has_area = box_rule.prepare(taken, frame.network)
        if self._clip_first:
            boxes, has_area = clip_to_image(boxes, has_area, frame)
        selection = Selection(boxes, found.scores, found.class_ids, image.extras_of(found.anchors))
        if np.count_nonzero(has_area) < len(has_area):
            selection, taken = selection.take(has_area), taken[has_area]
        box_rule.refuse_normalized(taken, image.boxes)
        return selection


def create(config: DecoderConfig) -> YoloDecoder:
    """Return the family's decoder."""
    return YoloDecoder(config)
