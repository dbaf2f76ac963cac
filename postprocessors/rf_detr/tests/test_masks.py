"""Masks of the segmentation head, against a plain bilinear upsampling of the whole image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from postprocessors.contract import DecodeError
from postprocessors.geometry import FrameGeometry
from postprocessors.results import Detections, InstanceMask
from postprocessors.rf_detr.tests.queries import BOX, boxes_of, decoder, logits_of

NAMES = ("dets", "labels", "masks")
SIDE = 312


def segment(planes: np.ndarray, frame: FrameGeometry, names: Any = NAMES, **settings: Any) -> Detections:
    """Return what is found where every query [h, w] of `planes` has one detection of BOX, the first the best."""
    queries = len(planes)
    peaks = {(query, query % 3): 4 - query / queries for query in range(queries)}
    decode = decoder(names, task="instance_segmentation", **settings)
    return decode([boxes_of(queries, *[BOX] * queries), logits_of(queries, 3, peaks), planes[None]], [frame])[0]


def stretched(height: int, width: int) -> FrameGeometry:
    return FrameGeometry((height, width), (SIDE, SIDE), (SIDE, SIDE))


def whole(mask: InstanceMask, height: int, width: int) -> np.ndarray:
    """Return the mask as an image, and check that the cut-out lies inside."""
    image = np.zeros((height, width), np.uint8)
    rows, columns = mask.pixels.shape
    image[mask.top : mask.top + rows, mask.left : mask.left + columns] = mask.pixels
    assert image.sum() == mask.area
    return image


def bilinear(plane: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return logits [height, width]: half-pixel centres, the border repeated, as torch without align_corners."""

    def taps(size: int, cells: int) -> np.ndarray:
        places = np.clip((np.arange(size) + 0.5) * cells / size - 0.5, 0, cells - 1)
        return np.maximum(0, 1 - np.abs(places[:, None] - np.arange(cells)))

    return taps(height, plane.shape[0]) @ plane.astype(np.float64) @ taps(width, plane.shape[1]).T


@pytest.mark.parametrize(
    ("height", "width"),
    [
        pytest.param(270, 480, id="larger"),
        pytest.param(9, 400, id="flat"),
        pytest.param(20, 20, id="same"),
        pytest.param(40, 40, id="twice"),
        pytest.param(10, 10, id="half"),
        pytest.param(7, 3, id="smaller"),
        pytest.param(1, 1, id="one-pixel"),
    ],
)
def test_pixels_are_those_of_the_upsampled_plane(height: int, width: int) -> None:
    planes = np.random.default_rng(5).normal(-0.4, 1, (6, 20, 20)).astype(np.float32)
    planes[1:, :, 12:], planes[2:, :3], planes[3:, 9:], planes[5, :, :11] = -1, -1, -1, -1
    found = segment(planes, stretched(height, width))
    assert found.masks is not None
    for mask, plane in zip(found.masks, planes):
        logits = bilinear(plane, height, width)
        sure = np.abs(logits) > 1e-5
        assert ((whole(mask, height, width) > 0) == (logits > 0))[sure].all()


def test_the_box_does_not_crop_the_mask() -> None:
    (mask,) = segment(np.ones((1, 20, 20), np.float32), stretched(90, 120)).masks or ()
    assert mask.area == 90 * 120


def test_what_is_held_is_no_larger_than_the_object() -> None:
    plane = np.full((1, 78, 78), -1, np.float32)
    plane[0, 30:34, 50:53] = 1
    (mask,) = segment(plane, stretched(1560, 1560)).masks or ()
    assert mask.pixels.size <= (6 * 20 + 2) * (5 * 20 + 2)
    assert mask.area > 60 * 40


def test_an_empty_mask_keeps_its_detection() -> None:
    found = segment(np.full((2, 20, 20), -1, np.float32), stretched(90, 120))
    assert [mask.area for mask in found.masks or ()] == [0, 0]


def test_masks_stay_with_their_boxes() -> None:
    planes = np.full((3, 20, 20), -1, np.float32)
    for query in range(3):
        planes[query, : 5 * (query + 1)] = 1
    boxes = boxes_of(3, BOX, (0.5, 0.5, 0, 0.5), BOX)
    raw = [boxes, logits_of(3, 2, {(0, 0): 1.0, (1, 0): 3.0, (2, 1): 2.0, (2, 0): 1.5}), planes[None]]
    found = decoder(NAMES, task="instance_segmentation")(raw, [stretched(100, 100)])[0]
    assert found.class_ids.tolist() == [1, 0, 0]
    assert [mask.area for mask in found.masks or ()] == [7500, 7500, 2500]


def test_one_set_of_masks_per_image() -> None:
    boxes, logits = np.concatenate([boxes_of(1, BOX)] * 2), np.concatenate([logits_of(1, 2, {(0, 0): 2.0})] * 2)
    planes = np.stack([np.full((1, 8, 8), -1, np.float32), np.ones((1, 8, 8), np.float32)])
    frames = [stretched(50, 50), stretched(40, 30)]
    first, second = decoder(NAMES, task="instance_segmentation")([boxes, logits, planes], frames)
    assert [(found.masks or ())[0].area for found in (first, second)] == [0, 1200]


@pytest.mark.parametrize("cell", [np.nan, -np.inf, -3e38])
def test_b72_a_bad_cell_spoils_no_other(cell: float) -> None:
    plane = np.ones((1, 5, 5), np.float32)
    plane[0, 2, 2] = cell
    image = whole((segment(plane, stretched(100, 100)).masks or ())[0], 100, 100)
    assert image[50, 50] == 0
    # Neighbours lend it nothing beyond the cells that touch it.
    assert image.sum() == 100 * 100 - image[30:70, 30:70].size + image[30:70, 30:70].sum()


@pytest.mark.parametrize("cell", [np.inf, 3e38])
def test_a_huge_cell_is_the_objects(cell: float) -> None:
    plane = np.ones((1, 5, 5), np.float32)
    plane[0, 2, 2] = cell
    assert (segment(plane, stretched(100, 100)).masks or ())[0].area == 10_000


def test_padding_is_no_part_of_the_image() -> None:
    # 200 x 100 pixels in the middle of 312: the plane's left and right quarter lie on padding.
    frame = FrameGeometry((200, 100), (312, 156), (312, 312), (0, 78))
    plane = np.full((1, 8, 8), -1, np.float32)
    plane[0, :4] = 1
    (mask,) = segment(plane, frame).masks or ()
    image = whole(mask, 200, 100)
    assert image[:95].all()
    assert not image[105:].any()


def test_what_a_crop_left_out_is_no_object() -> None:
    frame = FrameGeometry((100, 200), (312, 624), (312, 312), (0, -156))
    (mask,) = segment(np.ones((1, 8, 8), np.float32), frame).masks or ()
    image = whole(mask, 100, 200)
    assert image[:, 52:148].all()
    assert not image[:, :48].any()
    assert not image[:, 152:].any()


def test_no_query_no_mask() -> None:
    found = segment(np.zeros((0, 8, 8), np.float32), stretched(9, 9))
    assert (len(found), found.masks) == (0, ())


def test_a_detector_has_none() -> None:
    raw = [boxes_of(1, BOX), logits_of(1, 2, {(0, 0): 2.0}), np.ones((1, 1, 8, 8), np.float32)]
    assert decoder(NAMES)(raw, [stretched(9, 9)])[0].masks is None


def test_named_masks_win() -> None:
    outputs = {"boxes": {"tensor": 0}, "logits": {"tensor": 1}, "masks": {"tensor": 3}}
    raw = [boxes_of(1, BOX), logits_of(1, 2, {(0, 0): 2.0}), np.ones((1, 1, 8, 8)), -np.ones((1, 1, 8, 8))]
    found = decoder((*NAMES, "more"), outputs=outputs, task="instance_segmentation")(raw, [stretched(9, 9)])[0]
    assert [mask.area for mask in found.masks or ()] == [0]


@pytest.mark.parametrize(
    "planes",
    [
        pytest.param([], id="none"),
        pytest.param([np.zeros((1, 2, 8, 8))], id="of-other-queries"),
        pytest.param([np.zeros((1, 1, 0, 8))], id="without-pixels"),
        pytest.param([np.zeros((1, 1, 8, 8))] * 2, id="two"),
    ],
)
def test_masks_that_are_refused(planes: list[np.ndarray]) -> None:
    raw = [boxes_of(1, BOX), logits_of(1, 2, {(0, 0): 2.0}), *planes]
    with pytest.raises(DecodeError, match=r"expected masks \[B, Q, h, w\] beside boxes .*got \[1, 1, 4\]"):
        decoder(task="instance_segmentation")(raw, [stretched(9, 9)])
