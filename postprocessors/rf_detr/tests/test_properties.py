"""What holds for every pair of legal shapes, whatever its numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from postprocessors.contract import DecodeError
from postprocessors.geometry import FrameGeometry
from postprocessors.rf_detr.tests.queries import decoder

ANY_FLOAT = st.floats(width=32, allow_nan=True, allow_infinity=True)


@st.composite
def pairs(draw: st.DrawFn) -> list[np.ndarray]:
    queries, columns = draw(st.integers(0, 20)), draw(st.integers(1, 6))
    near = st.floats(-0.5, 1.5, width=32)
    return [
        draw(hnp.arrays(np.float32, (1, queries, 4), elements=near | ANY_FLOAT)),
        draw(hnp.arrays(np.float32, (1, queries, columns), elements=ANY_FLOAT)),
    ]


@settings(deadline=None, max_examples=100)
@given(
    pairs(),
    st.tuples(st.integers(1, 5000), st.integers(1, 5000)),
    st.floats(0, 1),
    st.booleans(),
    st.sampled_from([None, 0, -1]),
)
def test_every_result_is_sane(
    pair: list[np.ndarray], source: tuple[int, int], threshold: float, use_softmax: bool, background: int | None
) -> None:
    columns = pair[1].shape[2]
    background = None if columns == 1 else background
    decode = decoder(score_threshold=threshold, use_softmax=use_softmax, background_class=background, max_det=20)
    found = decode(pair, [FrameGeometry(source, (384, 384), (384, 384))])[0]
    height, width = source
    x1, y1, x2, y2 = found.boxes.T
    assert len(found) <= 20
    assert ((x1 >= 0) & (y1 >= 0) & (x2 <= width) & (y2 <= height)).all()
    assert ((x2 > x1) & (y2 > y1)).all()
    assert (found.scores >= np.float32(threshold)).all()
    assert (found.scores <= 1).all()
    assert (np.diff(found.scores) <= 0).all()
    assert ((found.class_ids >= 0) & (found.class_ids < columns)).all()
    if background is not None:
        assert (found.class_ids != background % columns).all()
    json.loads(found.to_json(), parse_constant=pytest.fail)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 4),
    hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9), elements=ANY_FLOAT),
    st.tuples(st.integers(1, 400), st.integers(1, 400)),
    st.sampled_from([(16, 16, 0, 0), (16, 9, 0, 3), (16, 40, 0, -12)]),
)
def test_every_mask_lies_in_the_image(
    queries: int, plane: np.ndarray, source: tuple[int, int], place: tuple[int, int, int, int]
) -> None:
    boxes = np.tile(np.array([0.5, 0.5, 0.9, 0.9], np.float32), (1, queries, 1))
    raw = [boxes, np.ones((1, queries, 2), np.float32), np.tile(plane, (1, queries, 1, 1))]
    decode = decoder(("dets", "labels", "masks"), task="instance_segmentation", top_k=None)
    found = decode(raw, [FrameGeometry(source, place[:2], (16, 16), place[2:])])[0]
    assert found.masks is not None
    assert len(found.masks) == len(found) == queries
    for mask in found.masks:
        rows, columns = mask.pixels.shape
        assert mask.pixels.dtype == np.uint8
        assert mask.pixels.max(initial=0) <= 1
        assert 0 <= mask.top <= mask.top + rows <= source[0]
        assert 0 <= mask.left <= mask.left + columns <= source[1]


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6), fill=st.nothing()),
        max_size=3,
    )
)
def test_other_shapes_are_decode_errors(outputs: list[np.ndarray]) -> None:
    try:
        decoder()(outputs, [FrameGeometry((480, 640), (384, 384), (384, 384))])
    except DecodeError as error:
        assert "\n" not in str(error)  # noqa: PT017 - both outcomes are right
