"""What holds for every segmentation head of a legal shape, whatever its numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from postprocessors.contract import DecodeValueError
from postprocessors.geometry import FrameGeometry
from postprocessors.semantic_segmentation.tests.test_decode import SIGMOID, decoder

SIDES = st.integers(1, 300)


@st.composite
def frames(draw: st.DrawFn) -> FrameGeometry:
    """A stretched image, or a letterboxed one whose sides are anything."""
    source, network = (draw(SIDES), draw(SIDES)), (draw(st.integers(1, 64)), draw(st.integers(1, 64)))
    if draw(st.booleans()):
        return FrameGeometry(source, network, network)
    resized = (draw(st.integers(1, network[0])), draw(st.integers(1, network[1])))
    offset = (draw(st.integers(0, network[0] - resized[0])), draw(st.integers(0, network[1] - resized[1])))
    return FrameGeometry(source, resized, network, offset)


SHAPES = st.tuples(st.just(1), st.integers(1, 5), st.integers(1, 9), st.integers(1, 9))
HEADS = SHAPES.flatmap(lambda shape: hnp.arrays(np.float32, shape, elements=st.floats(width=32)))


@settings(deadline=None, max_examples=150)
@given(HEADS, frames(), st.floats(0, 1))
def test_scores(head: np.ndarray, frame: FrameGeometry, threshold: float) -> None:
    try:
        (result,) = decoder(SIGMOID, score_threshold=threshold)([head], [frame])
    except DecodeValueError:
        assert np.isnan(head).all(axis=1).any()
        return
    assert (result.classes.shape, result.classes.dtype) == (frame.source, np.uint8)
    assert result.classes.max() < max(head.shape[1], 2) <= len(result.class_names) + (head.shape[1] == 1)


INDICES = st.tuples(st.just(1), st.integers(1, 9), st.integers(1, 9)).flatmap(
    lambda shape: hnp.arrays(np.int16, shape, elements=st.integers(-2, 300) | st.integers(0, 4))
)


@settings(deadline=None, max_examples=150)
@given(INDICES, frames(), st.sampled_from([None, 2, 5, 256]))
def test_indices(head: np.ndarray, frame: FrameGeometry, num_classes: int | None) -> None:
    limit = num_classes or 256
    try:
        (result,) = decoder(num_classes=num_classes)([head], [frame])
    except DecodeValueError:
        assert head.min() < 0 or head.max() >= limit
        return
    assert result.classes.shape == frame.source
    assert set(np.unique(result.classes)) <= set(np.unique(head))
    assert result.classes.max() < len(result.class_names) or num_classes is None
