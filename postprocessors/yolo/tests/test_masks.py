"""Masks against the rule itself, pixel by pixel."""

from __future__ import annotations

import tracemalloc

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postprocessors.geometry import FrameGeometry
from postprocessors.results import InstanceMask
from postprocessors.yolo.masks import MaskRule

SQUARE = FrameGeometry((32, 32), (32, 32), (32, 32))
WIDE = FrameGeometry((45, 90), (16, 32), (32, 32), (8, 0))
FRAMES = [
    SQUARE,
    WIDE,
    FrameGeometry((90, 45), (32, 16), (32, 32), (0, 8)),
    # The source is smaller than the prototypes.
    FrameGeometry((5, 3), (32, 19), (32, 32), (0, 6)),
    FrameGeometry((70, 31), (32, 32), (32, 32)),
    # Cropped: the input shows the image's middle.
    FrameGeometry((60, 120), (32, 64), (32, 32), (0, -16)),
]


def laid_out(mask: InstanceMask | None, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    full = np.zeros(size, np.uint8)
    if mask is not None:
        rows, columns = mask.pixels.shape
        full[mask.top : mask.top + rows, mask.left : mask.left + columns] = mask.pixels
    return full


def logits_at(plane: npt.NDArray[np.float64], size: float, places: npt.NDArray[np.float64], axis: int) -> npt.NDArray:
    """Return the bilinear plane at places of one axis of the network's input, as PyTorch interpolates."""
    cells = plane.shape[axis]
    at = np.clip(places * cells / size - 0.5, 0, cells - 1)
    low = np.floor(at).astype(int)
    high = np.minimum(low + 1, cells - 1)
    shape = [-1, 1] if axis == 0 else [1, -1]
    weight = (at - low).reshape(shape)
    return plane.take(low, axis) * (1 - weight) + plane.take(high, axis) * weight


def by_the_rule(plane: npt.NDArray[np.float64], box: npt.NDArray[np.float32], frame: FrameGeometry) -> npt.NDArray:
    """Return logits [H, W] of the source's pixels, -inf outside the box."""
    on_source = plane
    for axis in (0, 1):
        source, resized, network, offset = (
            pair[axis] for pair in (frame.source, frame.resized, frame.network, frame.offset)
        )
        places = (np.arange(source) + 0.5) * resized / source + offset
        places = np.clip(places, max(offset, 0) + 0.5, min(offset + resized, network) - 0.5)
        on_source = logits_at(on_source, network, places, axis)
    x1, y1, x2, y2 = frame.to_source(np.clip(box, 0, 32)[None])[0]
    rows, columns = np.mgrid[: frame.source[0], : frame.source[1]]
    inside = (columns >= x1) & (columns < x2) & (rows >= y1) & (rows < y2)
    return np.where(inside, on_source, -np.inf)


@settings(deadline=None, max_examples=120)
@given(
    st.sampled_from(FRAMES), st.integers(0, 2**32 - 1), st.sampled_from([(8, 8), (1, 1), (2, 5), (32, 32), (40, 48)])
)
def test_every_mask_is_the_rule_s(frame: FrameGeometry, seed: int, cells: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    prototypes = rng.normal(size=(4, *cells)).astype(np.float32)
    coefficients = rng.normal(size=(6, 4)).astype(np.float32)
    corners = rng.uniform(-8, 40, (6, 2, 2))
    boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1).astype(np.float32)
    found = MaskRule(prototypes, frame).masks(coefficients, boxes)
    planes = np.tensordot(coefficients.astype(float), prototypes.astype(float), 1)
    for mask, plane, box in zip(found, planes, boxes):
        logits = by_the_rule(plane, box, frame)
        on_network = by_the_rule(plane, box, SQUARE)
        if not (np.abs(on_network) < 1e-5).any():
            assert (mask is None) == (not (on_network > 0).any())
        if mask is not None:
            sure = np.abs(logits) > 1e-5
            np.testing.assert_array_equal(laid_out(mask, frame.source)[sure], (logits > 0)[sure])


def test_the_mask_is_cut_at_the_box() -> None:
    (mask,) = MaskRule(np.ones((1, 8, 8), np.float32), SQUARE).masks(
        np.ones((1, 1), np.float32), np.array([[3.2, 4.0, 10.0, 12.5]], np.float32)
    )
    assert (mask.top, mask.left, mask.pixels.shape, mask.area) == (4, 4, (9, 6), 54)


def test_padding_is_taken_off() -> None:
    (mask,) = MaskRule(np.ones((1, 8, 8), np.float32), WIDE).masks(
        np.ones((1, 1), np.float32), np.array([[0, 0, 32, 32]], np.float32)
    )
    assert (mask.top, mask.left, mask.area) == (0, 0, 45 * 90)


@pytest.mark.parametrize("value", [-1.0, 0.0, np.nan])
def test_what_has_no_pixel_is_none(value: float) -> None:
    rule = MaskRule(np.full((1, 8, 8), value, np.float32), SQUARE)
    assert rule.masks(np.ones((1, 1), np.float32), np.array([[0, 0, 32, 32]], np.float32)) == [None]


def test_a_box_between_the_network_s_pixels_has_no_mask() -> None:
    rule = MaskRule(np.ones((1, 8, 8), np.float32), FrameGeometry((320, 320), (32, 32), (32, 32)))
    # 7 pixels wide in the source, where the mask would have been.
    assert rule.masks(np.ones((1, 1), np.float32), np.array([[4.2, 3, 4.9, 9]], np.float32)) == [None]


def test_one_that_shows_at_the_network_s_size_only_is_empty() -> None:
    plane = np.full((1, 32, 32), -1, np.float32)
    plane[0, 5, 5] = 0.5
    (mask,) = MaskRule(plane, FrameGeometry((4, 4), (32, 32), (32, 32))).masks(
        np.ones((1, 1), np.float32), np.array([[0, 0, 32, 32]], np.float32)
    )
    assert mask.area == 0


def test_numbers_out_of_range_are_no_object() -> None:
    prototypes = np.ones((2, 8, 8), np.float32)
    prototypes[0, :4], prototypes[0, 4:] = 3e38, np.nan
    (mask,) = MaskRule(prototypes, SQUARE).masks(
        np.array([[3e38, 1]], np.float32), np.array([[0, 0, 32, 32]], np.float32)
    )
    assert (mask.top, mask.left) == (0, 0)
    assert 14 <= len(mask.pixels) <= 18
    assert mask.pixels.all()


def test_memory_is_what_the_boxes_hold_at_4k() -> None:
    rng = np.random.default_rng(0)
    prototypes = rng.normal(size=(32, 160, 160)).astype(np.float32)
    corners = rng.uniform(140, 450, (300, 2))
    boxes = np.concatenate([corners, corners + 40], axis=1).astype(np.float32)
    coefficients = rng.normal(size=(300, 32)).astype(np.float32)
    frame = FrameGeometry((2160, 3840), (360, 640), (640, 640), (140, 0))
    tracemalloc.start()
    masks = MaskRule(prototypes, frame).masks(coefficients, boxes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    held = sum(mask.pixels.nbytes for mask in masks if mask is not None)
    assert held > 8e6
    # All masks at full size would be 2500 MB.
    assert peak < held + 60e6
