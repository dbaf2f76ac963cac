"""What holds for every anomaly head of a legal shape, whatever its numbers."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from postprocessors.anomaly.tests.test_decode import decoder
from postprocessors.contract import DecodeValueError
from postprocessors.geometry import FrameGeometry

ANY_FLOAT = st.floats(width=32)
SIDES = st.integers(1, 40)
SOURCES = st.tuples(SIDES, SIDES)


@st.composite
def heads(draw: st.DrawFn) -> tuple[list[np.ndarray], int]:
    """Some of an export's outputs in any order, and how many images they are of."""
    images, height, width = draw(st.integers(1, 3)), draw(st.integers(1, 6)), draw(st.integers(2, 6))
    elements = draw(st.sampled_from([ANY_FLOAT, st.floats(0, 1, width=32), st.floats(-(2.0**99), 2.0**99, width=32)]))
    score = draw(hnp.arrays(np.float32, draw(st.sampled_from([(images,), (images, 1)])), elements=elements))
    plane = draw(hnp.arrays(np.float32, (images, 1, height, width), elements=elements))
    label, mask = score > 0.5, plane > 0.5
    chosen = draw(st.sampled_from([[score], [plane], [score, label, plane, mask], [score, mask]]))
    return draw(st.permutations(chosen)), images


@settings(deadline=None, max_examples=200)
@given(heads(), SOURCES, st.floats(-1e9, 1e9), st.sampled_from([None, [0.0, 20.0]]), st.booleans())
def test_what_leaves_keeps_the_rules(
    made: tuple[list[np.ndarray], int],
    source: tuple[int, int],
    threshold: float,
    score_range: list[float] | None,
    has_names: bool,
) -> None:
    outputs, images = made
    names = ["background", "a"] if has_names else []
    decode = decoder(threshold=threshold, score_range=score_range, pixel_class_names=names)
    frames = [FrameGeometry(source, (8, 8), (8, 8))] * images
    try:
        results = decode(outputs, frames)
    except DecodeValueError:
        assert not all(np.isfinite(output).all() for output in outputs)
        return
    assert len(results) == images
    for result in results:
        assert math.isfinite(np.float32(result.score))
        assert 0 <= result.confidence <= 1
        assert result.anomaly_map is None or np.isfinite(result.anomaly_map).all()
        if result.class_mask is not None:
            assert result.class_mask.shape == source
            assert result.class_mask.max() <= 1
