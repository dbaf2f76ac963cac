"""What holds for every head of a legal shape, whatever its numbers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from postprocessors.contract import DecodeError
from postprocessors.geometry import FrameGeometry
from postprocessors.yolo.tests.heads import decoder

SIDES = st.tuples(st.integers(1, 5000), st.integers(1, 5000))
ANY_FLOAT = st.floats(width=32, allow_nan=True, allow_infinity=True)
PIXELS = st.floats(-2000, 2000, width=32)
SCORES = st.floats(0, 1, width=32)


@st.composite
def heads(draw: st.DrawFn, boxes: Any, scores: Any) -> np.ndarray:
    classes, anchors = draw(st.integers(1, 6)), draw(st.integers(0, 40))
    return np.concatenate(
        [
            draw(hnp.arrays(np.float32, (1, 4, anchors), elements=boxes)),
            draw(hnp.arrays(np.float32, (1, classes, anchors), elements=scores)),
        ],
        axis=1,
    )


@settings(deadline=None, max_examples=80)
@given(heads(PIXELS, SCORES) | heads(ANY_FLOAT, SCORES), SIDES, st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_every_result_is_sane(
    raw: np.ndarray, source: tuple[int, int], threshold: float, iou: float, agnostic: bool
) -> None:
    classes = raw.shape[1] - 4
    frame = FrameGeometry(source, (640, 640), (640, 640))
    decode = decoder(classes, score_threshold=threshold, iou_threshold=iou, class_agnostic=agnostic, max_det=20)
    found = decode([raw], [frame])[0]
    height, width = source
    x1, y1, x2, y2 = found.boxes.T
    assert len(found) <= 20
    assert ((x1 >= 0) & (y1 >= 0) & (x2 <= width) & (y2 <= height)).all()
    assert ((x2 > x1) & (y2 > y1)).all()
    assert (found.scores >= np.float32(threshold)).all()
    assert (found.scores <= 1).all()
    assert (np.diff(found.scores) <= 0).all()
    assert ((found.class_ids >= 0) & (found.class_ids < classes)).all()
    json.loads(found.to_json(), parse_constant=pytest.fail)


@settings(deadline=None, max_examples=80)
@given(heads(ANY_FLOAT, ANY_FLOAT))
def test_only_scores_above_one_are_refused(raw: np.ndarray) -> None:
    scores = raw[:, 4:]
    decode = decoder(raw.shape[1] - 4)
    frames = [FrameGeometry((480, 640), (640, 640), (640, 640))]
    if (scores[np.isfinite(scores)] > 1.001).any():
        with pytest.raises(DecodeError, match="class scores reach"):
            decode([raw], frames)
    else:
        decode([raw], frames)


@settings(deadline=None, max_examples=80)
@given(hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=8), fill=st.nothing()))
def test_other_shapes_are_decode_errors(raw: np.ndarray) -> None:
    try:
        decoder(2)([np.clip(np.nan_to_num(raw), 0, 1)], [FrameGeometry((480, 640), (640, 640), (640, 640))])
    except DecodeError as error:
        assert "\n" not in str(error)  # noqa: PT017 - both outcomes are right
