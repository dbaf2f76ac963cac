"""The fast way to a class map, against the slow one: interpolate every plane, then compare."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from postprocessors.geometry import FrameGeometry
from postprocessors.semantic_segmentation.upsample import best_classes


def every_plane(planes: np.ndarray, source: tuple[int, int]) -> np.ndarray:
    """OpenCV's bilinear filter has half-pixel centres and no antialiasing, as `align_corners=False` has it."""
    return np.stack([cv2.resize(plane, source[::-1], interpolation=cv2.INTER_LINEAR) for plane in planes])


def smooth(classes: int, side: int, coarse: int) -> np.ndarray:
    seeds = np.random.default_rng(side).normal(0, 4, (classes, coarse, coarse)).astype(np.float32)
    return np.stack([cv2.resize(seed, (side, side), interpolation=cv2.INTER_CUBIC) for seed in seeds])


@pytest.mark.parametrize(
    ("planes", "source"),
    [
        pytest.param(smooth(21, 65, 8), (270, 480), id="regions"),
        pytest.param(smooth(150, 32, 5), (540, 300), id="many-classes"),
        pytest.param(smooth(5, 40, 40), (300, 700), id="noise"),
        pytest.param(smooth(4, 200, 20), (50, 33), id="smaller-than-the-map"),
        pytest.param(smooth(3, 1, 1), (7, 9), id="one-cell"),
        pytest.param(smooth(3, 16, 4), (1, 1), id="one-pixel"),
        pytest.param(smooth(1, 16, 4), (40, 50), id="one-class"),
        pytest.param(smooth(256, 12, 12), (100, 100), id="a-byte-of-classes"),
    ],
)
def test_the_best_class_of_interpolated_scores(planes: np.ndarray, source: tuple[int, int]) -> None:
    found = best_classes(planes, FrameGeometry(source, (64, 64), (64, 64)))
    scores = every_plane(planes, source)
    assert (found.shape, found.dtype) == (source, np.uint8)
    # Scores that differ in the last bits only are not ranked alike by everybody.
    chosen = np.take_along_axis(scores, found[None].astype(int), 0)[0]
    np.testing.assert_allclose(chosen, scores.max(axis=0), atol=1e-4)
    assert (found == scores.argmax(axis=0)).mean() > 0.999


def test_a_class_that_wins_between_cells_only() -> None:
    # At no cell the third class is the best one, but it is halfway between them.
    planes = np.array([[[4, 0, 4]], [[0, 4, 0]], [[3, 3, 3]]], np.float32)
    found = best_classes(planes, FrameGeometry((1, 300), (1, 3), (1, 3)))
    assert set(found[0].tolist()) == {0, 1, 2}
    assert found[0, 100] == 2


def test_equal_scores_are_the_lower_class() -> None:
    assert not best_classes(np.zeros((4, 3, 3), np.float32), FrameGeometry((50, 60), (3, 3), (3, 3))).any()


@pytest.mark.parametrize("cells", [8, 16, 64], ids=lambda cells: f"{cells}-cells")
def test_padding_has_no_influence(cells: int) -> None:
    frame = FrameGeometry((20, 80), (16, 64), (64, 64), (24, 0))
    planes = np.zeros((2, cells, cells), np.float32)
    planes[1] = 100
    first, last = cells * 24 // 64, cells * 40 // 64
    inner = smooth(2, cells, 4)[:, first:last]
    planes[:, first:last] = inner
    scores = every_plane(inner, frame.source)
    assert (best_classes(planes, frame) == scores.argmax(axis=0)).mean() > 0.999


def test_b72_what_is_not_a_number_is_never_the_best() -> None:
    planes = np.zeros((3, 4, 4), np.float32)
    planes[0], planes[1], planes[2] = np.nan, -np.inf, -3
    frame = FrameGeometry((30, 30), (4, 4), (4, 4))
    assert (best_classes(planes, frame) == 2).all()
    planes[1, 2] = np.inf
    assert (best_classes(planes, frame)[20] == 1).all()
