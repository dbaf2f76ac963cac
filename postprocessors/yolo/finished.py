"""Boxes that the graph has chosen itself: end-to-end heads, NMS in the graph, EfficientNMS, rows with an image index.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..class_rules import ClassRules
from ..contract import DecodeValueError
from ..geometry import FloatArray
from .boxes import BoxRule
from .candidates import SCORE_SLACK
from .images import Rows
from .task import Selection


def select_rows(rows: Rows, rules: ClassRules, box_rule: BoxRule, network: tuple[int, int], max_det: int) -> Selection:
    """Return the rows that count, best first, at most `max_det`.

    Padding has score 0 and no area. A row that holds no finite box or score is left out.

    Raises:
        DecodeValueError: A row that counts has a score above 1, a class that the package does not state, or boxes that
            are no pixels.
    """
    usable = np.isfinite(rows.scores) & (rows.scores >= rules.lowest)
    boxes, has_area = box_rule.prepare(rows.boxes, network)
    found = np.flatnonzero(usable & has_area)
    scores, numbers = rows.scores[found], rows.class_ids[found]
    _check(scores, numbers, len(rules.names))
    box_rule.refuse_normalized(rows.boxes[found])
    class_ids = numbers.astype(np.intp)
    scores = np.minimum(scores, np.float32(1))
    passed = np.flatnonzero(rules.passes(scores, class_ids))
    # Vendors rank their rows; an export that does not is put in order here.
    order = passed[np.argsort(-scores[passed], kind="stable")][:max_det]
    chosen = found[order]
    return Selection(boxes[chosen], scores[order], class_ids[order], rows.extras[chosen])


def _check(scores: FloatArray, numbers: npt.NDArray[np.float32], classes: int) -> None:
    peak = scores.max(initial=0)
    if peak > 1 + SCORE_SLACK:
        raise DecodeValueError(
            f"yolo: scores of the end-to-end rows reach {peak:.3g}, expected 0..1; "
            "if these are no rows of box, score and class, set detection.end_to_end to false"
        )
    wrong = numbers[~((numbers >= 0) & (numbers < classes) & (numbers == np.floor(numbers)))]
    if len(wrong):
        raise DecodeValueError(
            f"yolo: class {wrong[0]:.6g} in an end-to-end row, expected whole numbers from 0 to {classes - 1}; "
            "set detection.num_classes to what the model was trained on"
        )
