"""What holds for every head of a legal shape, whatever its numbers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from postprocessors.contract import DecodeError, DecodeValueError
from postprocessors.geometry import FrameGeometry
from postprocessors.results import Detections
from postprocessors.yolo.tests.heads import decoder

SIDES = st.tuples(st.integers(1, 5000), st.integers(1, 5000))
ANY_FLOAT = st.floats(width=32, allow_nan=True, allow_infinity=True)
PIXELS = st.floats(-2000, 2000, width=32)
SCORES = st.floats(0, 1, width=32)


@st.composite
def heads(draw: st.DrawFn, boxes: Any, scores: Any) -> np.ndarray:
    """Draw [1, 4 + classes, anchors]."""
    classes, anchors = draw(st.integers(1, 6)), draw(st.integers(0, 40))
    return np.concatenate(
        [
            draw(hnp.arrays(np.float32, (1, 4, anchors), elements=boxes)),
            draw(hnp.arrays(np.float32, (1, classes, anchors), elements=scores)),
        ],
        axis=1,
    )


@st.composite
def chosen(draw: st.DrawFn, boxes: Any) -> np.ndarray:
    """Draw end-to-end rows [1, K, 6] of 9 classes."""
    count = draw(st.integers(0, 20))
    columns = [
        draw(hnp.arrays(np.float32, (1, count, 4), elements=boxes)),
        draw(hnp.arrays(np.float32, (1, count, 1), elements=SCORES)),
        draw(hnp.arrays(np.float32, (1, count, 1), elements=st.integers(0, 8))),
    ]
    return np.concatenate(columns, axis=2)


def check(found: Detections, source: tuple[int, int], classes: int, threshold: float) -> None:
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


@settings(deadline=None, max_examples=100)
@given(
    heads(PIXELS, SCORES) | heads(ANY_FLOAT, SCORES),
    SIDES,
    st.floats(0, 1),
    st.floats(0, 1),
    st.fixed_dictionaries({key: st.booleans() for key in ("class_agnostic", "multi_label", "clip_before_nms")}),
    st.sampled_from(["first", "last", "objectness", "pair"]),
)
def test_every_raw_result_is_sane(
    raw: np.ndarray, source: tuple[int, int], threshold: float, iou: float, flags: dict[str, bool], form: str
) -> None:
    classes = raw.shape[1] - 4
    outputs, stated = [raw], {"objectness": False, "channels_first": True, "end_to_end": False}
    if form == "last":
        outputs, stated["channels_first"] = [np.ascontiguousarray(raw.transpose(0, 2, 1))], False
    elif form == "objectness":
        objectness = np.full_like(raw[:, :1], 0.75)
        outputs = [np.concatenate([raw[:, :4], objectness, raw[:, 4:]], axis=1)]
        stated["objectness"] = True
    elif form == "pair":
        outputs = [raw[:, :4].transpose(0, 2, 1), raw[:, 4:].transpose(0, 2, 1)]
    decode = decoder(classes, score_threshold=threshold, iou_threshold=iou, max_det=20, **flags, **stated)
    check(decode(outputs, [FrameGeometry(source, (640, 640), (640, 640))])[0], source, classes, threshold)


@settings(deadline=None, max_examples=60)
@given(chosen(PIXELS) | chosen(ANY_FLOAT), SIDES, st.floats(0, 1))
def test_every_chosen_result_is_sane(raw: np.ndarray, source: tuple[int, int], threshold: float) -> None:
    decode = decoder(9, score_threshold=threshold, max_det=20, end_to_end=True)
    try:
        found = decode([raw], [FrameGeometry(source, (640, 640), (640, 640))])[0]
    except DecodeValueError as error:
        # B24: no box is larger than a pixel.
        assert "between 0 and 1" in str(error)  # noqa: PT017 - both outcomes are right
        counting = raw[0][raw[0, :, 4] >= np.float32(threshold)]
        assert (np.abs(counting[:, :4]).max(axis=1) <= 1).any()
        return
    check(found, source, 9, threshold)


@settings(deadline=None, max_examples=60)
@given(heads(ANY_FLOAT, ANY_FLOAT))
def test_only_scores_above_one_are_refused(raw: np.ndarray) -> None:
    scores = raw[:, 4:]
    decode = decoder(raw.shape[1] - 4, channels_first=True, objectness=False)
    frames = [FrameGeometry((480, 640), (640, 640), (640, 640))]
    if (scores[np.isfinite(scores)] > 1.001).any():
        with pytest.raises(DecodeError, match="class scores reach"):
            decode([raw], frames)
    else:
        decode([raw], frames)


@settings(deadline=None, max_examples=80)
@given(
    st.lists(
        hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=8), fill=st.nothing()),
        max_size=4,
    )
)
def test_other_shapes_are_decode_errors(outputs: list[np.ndarray]) -> None:
    tensors = [np.clip(np.nan_to_num(output), 0, 1) for output in outputs]
    try:
        decoder(2)(tensors, [FrameGeometry((480, 640), (640, 640), (640, 640))])
    except DecodeError as error:
        assert "\n" not in str(error)  # noqa: PT017 - both outcomes are right


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 40), st.floats(0, 1))
def test_every_form_of_one_head_gives_the_same(seed: int, classes: int, anchors: int, threshold: float) -> None:
    rng = np.random.default_rng(seed)
    raw = np.concatenate([rng.uniform(10, 600, (1, 4, anchors)), rng.random((1, classes, anchors))], axis=1)
    first = raw.astype(np.float32)
    last = np.ascontiguousarray(first.transpose(0, 2, 1))
    frame = [FrameGeometry((480, 640), (640, 640), (640, 640))]

    def found(outputs: list[np.ndarray], **stated: Any) -> Any:
        result = decoder(classes, score_threshold=threshold, **stated)(outputs, frame)[0]
        return result.boxes.tolist(), result.scores.tolist(), result.class_ids.tolist()

    raw_head = {"end_to_end": False, "objectness": False}
    expected = found([first], channels_first=True, **raw_head)
    assert found([last], channels_first=False, **raw_head) == expected
    assert found([first.transpose(0, 2, 1)], channels_first=False, **raw_head) == expected
    sure = np.insert(first, 4, 1.0, axis=1)
    assert found([sure], channels_first=True, objectness=True, end_to_end=False) == expected
