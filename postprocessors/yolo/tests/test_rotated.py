"""Suppression of rotated boxes, and their way back, against the formulas written out in double precision."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postprocessors.geometry import FrameGeometry
from postprocessors.yolo import rotated

FloatArray = npt.NDArray[np.float32]
ROW = tuple[float, float, float, float, float]


def gaussian(row: ROW) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    cx, cy, width, height, angle = (float(value) for value in row)
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    return np.array([cx, cy]), turn @ np.diag([width**2 / 12, height**2 / 12]) @ turn.T


def probabilistic_iou(first: ROW, second: ROW) -> float:
    """Return 1 - Hellinger's distance of the two boxes as Gaussians (arXiv 2106.06072)."""
    (centre_a, a), (centre_b, b) = gaussian(first), gaussian(second)
    middle, apart = (a + b) / 2, centre_a - centre_b
    distance = apart @ np.linalg.solve(middle, apart) / 8
    distance += math.log(np.linalg.det(middle) / math.sqrt(np.linalg.det(a) * np.linalg.det(b))) / 2
    return 1 - math.sqrt(max(1 - math.exp(-max(distance, 0)), 0))


def split(rows: list[ROW]) -> tuple[FloatArray, FloatArray]:
    table = np.array(rows, np.float32).reshape(-1, 5)
    return table[:, :4], table[:, 4]


def survivors(rows: list[ROW], classes: list[int], iou: float, agnostic: bool = False, max_det: int = 300) -> list[int]:
    boxes, angles = split(rows)
    return rotated.suppress(boxes, angles, np.array(classes, np.intp), iou, max_det, agnostic).tolist()


@st.composite
def crowds(draw: st.DrawFn) -> tuple[list[ROW], list[int]]:
    """Draw up to 300 boxes, crowded so that many overlap, and their classes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, spread = draw(st.integers(0, 300)), draw(st.sampled_from([5, 60, 400]))
    table = np.column_stack(
        [
            rng.uniform(0, spread, (count, 2)),
            rng.uniform(5, 60, (count, 2)),
            rng.uniform(-1, 4, count),
        ]
    ).astype(np.float32)
    return [tuple(row) for row in table.tolist()], rng.integers(0, draw(st.integers(1, 4)), count).tolist()


def matrix(rows: list[ROW]) -> npt.NDArray[np.float64]:
    """Return the probabilistic IoU of all pairs."""
    centres, covariances = np.zeros((len(rows), 2)), np.zeros((len(rows), 2, 2))
    for index, row in enumerate(rows):
        centres[index], covariances[index] = gaussian(row)
    middle = (covariances[:, None] + covariances[None]) / 2
    apart = centres[:, None] - centres[None]
    distance = np.einsum("abi,abij,abj->ab", apart, np.linalg.inv(middle), apart) / 8
    own = np.linalg.det(covariances)
    distance += np.log(np.linalg.det(middle) / np.sqrt(own[:, None] * own[None])) / 2
    return 1 - np.sqrt(np.clip(1 - np.exp(-np.maximum(distance, 0)), 0, None))


@settings(deadline=None, max_examples=30)
@given(crowds(), st.sampled_from([0.1, 0.45, 0.7, 0.95]), st.booleans(), st.sampled_from([1, 10, 1000]))
def test_a_box_falls_to_any_better_one(
    crowd: tuple[list[ROW], list[int]], iou: float, agnostic: bool, max_det: int
) -> None:
    rows, classes = crowd
    alike = matrix(rows)
    rivals = np.triu(np.ones_like(alike, bool), 1)
    if not agnostic:
        rivals &= np.equal.outer(classes, classes)
    # Too near to the threshold for single precision: either is right.
    alike[np.abs(alike - iou) < 1e-3] = np.nan
    certain, possible = rivals & (alike > iou), rivals & ~(alike <= iou)
    found = survivors(rows, classes, iou, agnostic, max_det)
    assert len(found) <= max_det
    assert found == sorted(found)
    least, most = np.flatnonzero(~possible.any(axis=0)), np.flatnonzero(~certain.any(axis=0))
    assert set(found) <= set(most.tolist())
    if len(least) == len(most):
        assert found == least[:max_det].tolist()


def test_the_formula_is_the_paper_s() -> None:
    first, second = (50.0, 60.0, 30.0, 10.0, 0.4), (54.0, 57.0, 24.0, 14.0, 0.9)
    alike = probabilistic_iou(first, second)
    assert 0.4 < alike < 0.6
    assert survivors([first, second], [0, 0], alike - 1e-4) == [0]
    assert survivors([first, second], [0, 0], alike + 1e-4) == [0, 1]


# Neighbours overlap, the first and the last do not.
CHAIN: list[ROW] = [(100, 100, 40, 20, 0.5), (106, 100, 40, 20, 0.5), (112, 100, 40, 20, 0.5)]


def test_what_has_fallen_still_makes_others_fall() -> None:
    neighbours, ends = probabilistic_iou(CHAIN[0], CHAIN[1]), probabilistic_iou(CHAIN[0], CHAIN[2])
    assert ends < 0.6 < neighbours
    assert survivors(CHAIN, [0, 0, 0], 0.6) == [0]


def test_classes_are_compared_only_if_asked_for() -> None:
    assert survivors(CHAIN, [0, 1, 0], 0.6) == [0, 1, 2]
    assert survivors(CHAIN, [0, 1, 0], 0.6, agnostic=True) == [0]


def test_turned_by_half_a_turn_is_the_same_box() -> None:
    rows: list[ROW] = [(100, 100, 40, 20, 0.5), (100, 100, 40, 20, 0.5 + math.pi), (100, 100, 20, 40, 0.5)]
    assert survivors(rows, [0, 0, 0], 0.9) == [0, 2]


def test_thin_boxes_that_cross_are_kept() -> None:
    rows: list[ROW] = [(100, 100, 200, 4, 0), (100, 100, 200, 4, math.pi / 2)]
    assert survivors(rows, [0, 0], 0.1) == [0, 1]


def test_a_threshold_of_one_drops_nothing() -> None:
    assert survivors([CHAIN[0]] * 3, [0] * 3, 1.0) == [0, 1, 2]


@pytest.mark.parametrize("spread", [1.0, 1280.0])
def test_memory_is_flat_for_the_most_candidates(spread: float) -> None:
    rng = np.random.default_rng(0)
    boxes = np.column_stack([rng.uniform(0, spread, (30_000, 2)), rng.uniform(10, 40, (30_000, 2))])
    angles, classes = rng.uniform(0, 3, 30_000), np.zeros(30_000, np.intp)
    tracemalloc.start()
    rotated.suppress(boxes.astype(np.float32), angles.astype(np.float32), classes, 0.45, 300, False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # All pairs would be 3600 MB.
    assert peak < 60e6


def corners(row: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    cx, cy, width, height, angle = (float(value) for value in row)
    u, v = np.array([math.cos(angle), math.sin(angle)]), np.array([-math.sin(angle), math.cos(angle)])
    signs = [(1, 1), (1, -1), (-1, -1), (-1, 1)]
    return np.array([[cx, cy] + a * width / 2 * u + b * height / 2 * v for a, b in signs])


BOXES: list[ROW] = [(320, 320, 200, 80, angle) for angle in (-2.0, -0.4, 0.0, 0.3, math.pi / 2, 2.5)]


def test_a_letterbox_scales_each_side_by_its_own_factor_as_the_vendor_does() -> None:
    frame = FrameGeometry((300, 451), (426, 640), (640, 640), (107, 0))
    found = rotated.to_source(*split(BOXES), frame)
    expected = [[320 * 451 / 640, 213 * 300 / 426, 200 * 451 / 640, 80 * 300 / 426, row[4]] for row in BOXES]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_stretched_box_is_the_smallest_rectangle_around_what_it_was() -> None:
    frame = FrameGeometry((480, 1920), (640, 640), (640, 640))
    tall: list[ROW] = [(cx, cy, height, width, angle) for cx, cy, width, height, angle in BOXES]
    for row, around in zip(BOXES + tall, rotated.to_source(*split(BOXES + tall), frame)):
        stretched = corners(np.array(row)) * [3, 0.75]
        cx, cy, width, height, angle = around.tolist()
        np.testing.assert_allclose([cx, cy], [960, 240], rtol=1e-6)
        turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        local = np.abs((stretched - [cx, cy]) @ turn.T)
        np.testing.assert_allclose(local.max(axis=0), [width / 2, height / 2], rtol=1e-4)
        for other in np.linspace(0, math.pi, 721):
            turn = np.array([[math.cos(other), math.sin(other)], [-math.sin(other), math.cos(other)]])
            assert np.prod(2 * np.abs((stretched - [cx, cy]) @ turn.T).max(axis=0)) >= width * height * (1 - 1e-4)


def test_a_stretched_box_along_the_axes_is_exact() -> None:
    frame = FrameGeometry((480, 1920), (640, 640), (640, 640))
    found = rotated.to_source(*split([(320, 320, 200, 80, 0.0)]), frame)
    np.testing.assert_allclose(found, [[960, 240, 600, 60, 0]], atol=1e-4)


def test_the_box_around_touches_the_corners() -> None:
    rows = np.array(BOXES, np.float32)
    for row, around in zip(rows, rotated.enclosing(rows)):
        found = corners(row)
        np.testing.assert_allclose(around, [*found.min(axis=0), *found.max(axis=0)], rtol=1e-5)
