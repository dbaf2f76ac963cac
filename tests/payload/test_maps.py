"""Class maps of the network's input back at the source's size."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from postprocessors.geometry import FrameGeometry
from postprocessors.maps import centres, nearest_to_source


@pytest.mark.parametrize(
    ("frame", "cells", "expected"),
    [
        pytest.param(FrameGeometry((4, 4), (8, 8), (8, 8)), 2, [0.25, 0.75, 1.25, 1.75], id="stretched"),
        pytest.param(FrameGeometry((2, 2), (4, 4), (8, 8), (2, 2)), 8, [3, 5], id="letterboxed"),
        pytest.param(FrameGeometry((2, 2), (4, 4), (8, 8), (2, 2)), 4, [1.5, 2.5], id="coarser-map"),
        pytest.param(FrameGeometry((4, 4), (16, 16), (8, 8), (-4, -4)), 8, [-2, 2, 6, 10], id="cropped"),
    ],
)
def test_centres(frame: FrameGeometry, cells: int, expected: list[float]) -> None:
    assert [centres(frame, axis, cells).tolist() for axis in (0, 1)] == [expected, expected]


@pytest.mark.parametrize("source", [(1080, 1920), (7, 5), (256, 256)])
def test_a_stretched_map_is_opencvs(source: tuple[int, int]) -> None:
    classes = np.random.default_rng(3).integers(0, 256, (256, 100)).astype(np.uint8)
    expected = cv2.resize(classes, source[::-1], interpolation=cv2.INTER_NEAREST_EXACT)
    np.testing.assert_array_equal(nearest_to_source(classes, FrameGeometry(source, (64, 64), (64, 64))), expected)


def test_what_the_network_does_not_see_is_class_0() -> None:
    classes = np.full((4, 4), 3, np.int64)
    found = nearest_to_source(classes, FrameGeometry((2, 8), (4, 16), (4, 4), (0, -6)))
    assert found.tolist() == [[0, 0, 0, 3, 3, 0, 0, 0]] * 2
    assert (
        nearest_to_source(classes, FrameGeometry((8, 2), (16, 4), (4, 4), (-6, 0))).tolist()
        == np.transpose(found).tolist()
    )


def test_padding_that_ends_within_a_cell() -> None:
    # Each cell is 4 pixels of the network's input; the image is its rows 6 to 10, half of two cells.
    classes = np.array([[9], [1], [2], [9]])
    found = nearest_to_source(classes, FrameGeometry((8, 1), (4, 16), (16, 16), (6, 0)))
    assert found[:, 0].tolist() == [1] * 4 + [2] * 4
