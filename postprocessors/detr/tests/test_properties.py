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
from postprocessors.detr.tests.heads import decoder
from postprocessors.geometry import FrameGeometry
from postprocessors.results import Detections

ANY_FLOAT = st.floats(width=32, allow_nan=True, allow_infinity=True)
COORDINATES = st.floats(-0.5, 1.5, width=32) | ANY_FLOAT
PROBABILITIES = st.floats(0, 1, width=32)
SOURCES = st.tuples(st.integers(1, 5000), st.integers(1, 5000))
CHOICES = st.fixed_dictionaries(
    {
        "score_threshold": st.floats(0, 1),
        "use_softmax": st.booleans(),
        "multi_label": st.sampled_from([None, True, False]),
        "top_k": st.sampled_from([None, 1, 300]),
        "boxes_normalized": st.sampled_from([None, True, False]),
        "box_format": st.sampled_from([None, "cxcywh", "xyxy"]),
        "compare": st.sampled_from(["greater", "greater_equal"]),
        "max_det": st.sampled_from([1, 20]),
    }
)


@st.composite
def pairs(draw: st.DrawFn) -> list[np.ndarray]:
    queries, columns = draw(st.integers(0, 20)), draw(st.integers(1, 6))
    return [
        draw(hnp.arrays(np.float32, (1, queries, columns), elements=ANY_FLOAT)),
        draw(hnp.arrays(np.float32, (1, queries, 4), elements=COORDINATES)),
    ]


@st.composite
def single(draw: st.DrawFn, scores: Any) -> np.ndarray:
    queries, width = draw(st.integers(0, 20)), draw(st.integers(5, 9))
    boxes = draw(hnp.arrays(np.float32, (1, queries, 4), elements=COORDINATES))
    return np.concatenate([boxes, draw(hnp.arrays(np.float32, (1, queries, width - 4), elements=scores))], axis=2)


@settings(deadline=None, max_examples=150)
@given(pairs(), SOURCES, CHOICES, st.sampled_from([None, 0, -1]))
def test_pairs(
    pair: list[np.ndarray], source: tuple[int, int], choices: dict[str, Any], background: int | None
) -> None:
    columns = pair[0].shape[2]
    if columns == 1:
        background, choices["use_softmax"] = None, False
    found = decoder(background_class=background, **choices)(pair, [frame_of(source)])[0]
    check_sane(found, source, columns, choices)
    if background is not None:
        assert (found.class_ids != background % columns).all()


@settings(deadline=None, max_examples=150)
@given(single(PROBABILITIES | st.just(np.nan)), SOURCES, CHOICES, st.integers(1, 5))
def test_one_output(head: np.ndarray, source: tuple[int, int], choices: dict[str, Any], classes: int) -> None:
    width = head.shape[2]
    if width != 6:
        classes = width - 4
    found = decoder(("x",), num_classes=classes, **choices)([head], [frame_of(source)])[0]
    check_sane(found, source, classes, choices)


@settings(deadline=None, max_examples=100)
@given(
    single(PROBABILITIES).filter(lambda head: head.shape[2] > 5),
    hnp.arrays(np.float32, (1, 20), elements=st.integers(-2, 9).map(float) | ANY_FLOAT),
    SOURCES,
    CHOICES,
)
def test_rows(head: np.ndarray, labels: np.ndarray, source: tuple[int, int], choices: dict[str, Any]) -> None:
    raw = [labels[:, : head.shape[1]], head[..., :4], head[..., 4]]
    found = decoder(("labels", "boxes", "scores"), num_classes=5, **choices)(raw, [frame_of(source)])[0]
    check_sane(found, source, 5, choices)


@settings(deadline=None, max_examples=60)
@given(single(ANY_FLOAT))
def test_only_scores_above_one_are_refused(head: np.ndarray) -> None:
    try:
        decoder(("x",), num_classes=head.shape[2] - 4, end_to_end=False)([head], [frame_of((480, 640))])
    except DecodeValueError:
        scores = head[..., 4:]
        assert scores[np.isfinite(scores)].max() > 1


@settings(deadline=None, max_examples=150)
@given(
    st.lists(
        hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6), fill=st.nothing()),
        max_size=3,
    )
)
def test_other_shapes_are_decode_errors(outputs: list[np.ndarray]) -> None:
    try:
        decoder(num_classes=2)(outputs, [frame_of((480, 640))])
    except DecodeError as error:
        assert "\n" not in str(error)  # noqa: PT017 - both outcomes are right


def frame_of(source: tuple[int, int]) -> FrameGeometry:
    return FrameGeometry(source, (640, 640), (640, 640))


def check_sane(found: Detections, source: tuple[int, int], classes: int, choices: dict[str, Any]) -> None:
    height, width = source
    x1, y1, x2, y2 = found.boxes.T
    threshold = np.float32(choices["score_threshold"])
    assert len(found) <= choices["max_det"]
    assert ((x1 >= 0) & (y1 >= 0) & (x2 <= width) & (y2 <= height)).all()
    assert ((x2 > x1) & (y2 > y1)).all()
    assert (found.scores > threshold if choices["compare"] == "greater" else found.scores >= threshold).all()
    assert (found.scores <= 1).all()
    assert (np.diff(found.scores) <= 0).all()
    assert ((found.class_ids >= 0) & (found.class_ids < classes)).all()
    json.loads(found.to_json(), parse_constant=pytest.fail)
