"""The pictures, pixel by pixel."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay import EncodeError, blend_mask, draw_detections, encode_jpeg, encode_png, to_bgr

GREEN = [0, 255, 0]
WHITE = (255, 255, 255)


def record(box: list[float], label: str = "bolt", confidence: float = 0.5, class_id: int = 3) -> dict[str, Any]:
    return {"bounding_box": box, "class": class_id, "class_label": label, "confidence": confidence}


def black(height: int, width: int, channels: int = 3) -> np.ndarray:
    return np.zeros((height, width, channels), np.uint8)


def is_green(picture: np.ndarray) -> np.ndarray:
    return (picture == GREEN).all(-1)


def test_lines_are_two_pixels_inside_the_box() -> None:
    drawn = is_green(draw_detections(black(400, 400), [record([100.0, 50.0, 300.0, 350.0])]))
    row, column = drawn[200], drawn[:, 120]
    assert np.flatnonzero(row).tolist() == [100, 101, 298, 299]
    assert np.flatnonzero(column).tolist() == [50, 51, 348, 349]


def test_label_is_black_on_a_band_in_the_upper_right_corner() -> None:
    picture = draw_detections(np.full((400, 400, 3), 77, np.uint8), [record([100.0, 50.0, 300.0, 350.0])])
    inside = picture[52:348, 102:298]
    rows, columns = np.nonzero((inside != 77).any(-1))
    assert rows.min() == 0
    assert columns.max() == 195
    band = inside[: rows.max() + 1, columns.min() :]
    assert 10 < band.shape[0] < 40
    assert 40 < band.shape[1] < 150
    assert (band[:, :, [0, 2]] == 0).all()  # between black and green, nothing else
    assert (band[:, :, 1] < 60).any()
    assert band[:, :, 1].mean() > 150


@pytest.mark.parametrize(
    ("image", "box"),
    [
        pytest.param((480, 640), [0.0, 0.0, 30.0, 40.0], id="left edge"),
        pytest.param((480, 640), [600.0, 0.0, 640.0, 480.0], id="right edge"),
        pytest.param((480, 640), [100.0, 470.0, 200.0, 480.0], id="bottom edge"),
        pytest.param((480, 640), [300.0, 0.0, 340.0, 4.0], id="flat, at the top"),
        pytest.param((2160, 3840), [1000.0, 1000.0, 2000.0, 2000.0], id="4K"),
    ],
)
def test_label_is_whole(image: tuple[int, int], box: list[float]) -> None:
    """The same label with room all round has the same number of dark pixels: nothing is cut off."""
    assert ink_of(image, box) == ink_of(image, shifted(box, image)) > 50


def ink_of(image: tuple[int, int], box: list[float]) -> int:
    picture = draw_detections(np.full((*image, 3), 255, np.uint8), [record(box)])
    return int((picture.max(-1) < 100).sum())


def shifted(box: list[float], image: tuple[int, int]) -> list[float]:
    left, top = image[1] // 2, image[0] // 2
    return [left, top, left + box[2] - box[0], min(top + box[3] - box[1], image[0])]


def test_a_low_box_is_not_covered_by_its_label() -> None:
    picture = is_green(draw_detections(np.full((480, 640, 3), 255, np.uint8), [record([300.0, 200.0, 312.0, 208.0])]))
    assert not picture[202:206, 302:310].any()
    assert picture[200:202, 300:312].all()
    assert picture[190, 280:310].any()


@pytest.mark.parametrize("label", ["Füße", "猫", "a\nb", "\x1b[31m", "", "😀"])
def test_labels_without_glyphs_are_drawn_as_class_and_id(label: str) -> None:
    image, box = black(200, 300), [20.0, 20.0, 280.0, 180.0]
    expected = draw_detections(image, [record(box, "class_3")])
    np.testing.assert_array_equal(draw_detections(image, [record(box, label)]), expected)
    assert (draw_detections(image, [record(box, "cat")]) != expected).any()


def test_percentage_is_rounded() -> None:
    image, box = black(200, 300), [20.0, 20.0, 280.0, 180.0]
    pictures = [draw_detections(image, [record(box, "a", confidence)]) for confidence in (0.9375, 0.94, 0.93)]
    np.testing.assert_array_equal(pictures[0], pictures[1])
    assert (pictures[0] != pictures[2]).any()


def test_the_best_is_on_top() -> None:
    image, box = black(200, 300), [20.0, 20.0, 280.0, 180.0]
    best, worst = record(box, "best", 0.9), record(box, "a", 0.9)
    alone = draw_detections(image, [best])
    np.testing.assert_array_equal(draw_detections(image, [best, worst]), alone)


@pytest.mark.parametrize(
    ("image", "box", "pixels"),
    [
        pytest.param((16, 16), [2.0, 2.0, 14.0, 14.0], 12 * 12 - 8 * 8, id="tile"),
        pytest.param((16, 16), [-9.0, -9.0, 99.0, 99.0], 16 * 16 - 12 * 12, id="larger than the image"),
        pytest.param((16, 16), [5.0, 5.0, 5.0, 5.0], 1, id="no area"),
        pytest.param((16, 16), [8.0, 8.0, 4.0, 4.0], 1, id="corners swapped"),
        pytest.param((16, 16), [5.0, 5.0, 6.0, 8.0], 3, id="one pixel wide"),
        pytest.param((16, 16), [5.0, 5.0, 8.0, 8.0], 9, id="three pixels wide"),
        pytest.param((16, 16), [50.0, 50.0, 60.0, 60.0], 1, id="outside"),
        pytest.param((40, 300), [10.0, 5.0, 290.0, 35.0], 280 * 30 - 276 * 26, id="too low for a label"),
        pytest.param((300, 20), [5.0, 5.0, 15.0, 295.0], 10 * 290 - 6 * 286, id="too narrow for a label"),
    ],
)
def test_boxes_without_labels(image: tuple[int, int], box: list[float], pixels: int) -> None:
    drawn = draw_detections(black(*image), [record(box)])
    assert is_green(drawn).sum() == np.count_nonzero(drawn.any(-1)) == pixels


@pytest.mark.parametrize(
    ("width", "same"),
    [pytest.param(120, False, id="part of the name"), pytest.param(32, True, id="percentage only")],
)
def test_long_names_are_shortened_before_the_percentage(width: int, same: bool) -> None:
    image, box = black(120, width), [2.0, 2.0, width - 2.0, 118.0]
    first = draw_detections(image, [record(box, "a" * 60)])
    second = draw_detections(image, [record(box, "b" * 60)])
    assert np.array_equal(first, second) == same
    assert (first != draw_detections(image, [record(box, "a" * 60, 0.75)])).any()
    assert (first != draw_detections(image, [])).any(-1).sum() > 4 * (width + 112)  # more than the outline


def test_nothing_found_is_the_plain_image() -> None:
    image = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
    np.testing.assert_array_equal(draw_detections(image, []), image[:, :, ::-1])


@pytest.mark.parametrize(
    ("pixel", "expected"),
    [
        pytest.param([10, 20, 30], [30, 20, 10], id="RGB swapped to BGR"),
        pytest.param([77], [77, 77, 77], id="grey replicated"),
        pytest.param([10, 20, 30, 255], [30, 20, 10], id="opaque"),
        pytest.param([10, 20, 30, 0], [255, 255, 255], id="clear is white"),
        pytest.param([10, 20, 30, 128], [142, 137, 132], id="half"),
        pytest.param([0, 255, 0, 51], [204, 255, 204], id="a fifth"),
    ],
)
def test_to_bgr(pixel: list[int], expected: list[int]) -> None:
    image = np.tile(np.array(pixel, np.uint8), (3, 5, 1))
    got = to_bgr(image)
    assert got.shape == (3, 5, 3)
    assert (got == expected).all()
    assert not np.shares_memory(got, image)


def test_alpha_is_composited_as_exactly_as_bytes_allow() -> None:
    image = np.random.default_rng(0).integers(0, 256, (64, 64, 4), np.uint8)
    alpha = image[:, :, 3:].astype(np.float64) / 255
    exact = image[:, :, :3] * alpha + 255 * (1 - alpha)
    assert np.abs(to_bgr(image)[:, :, ::-1] - exact).max() <= 0.5 + 1e-6


def test_blend() -> None:
    image = np.random.default_rng(0).integers(0, 256, (40, 30, 3), np.uint8)
    image[:20] = 255  # bright on bright: the sum does not fit a byte
    mask = np.full((40, 30, 3), 255, np.uint8)
    mask[10:30, 5:25] = [247, 105, 2]
    got = blend_mask(image, mask, WHITE)[:, :, ::-1].astype(int)
    background = (mask == 255).all(-1)
    np.testing.assert_array_equal(got[background], image[background])
    mean = (image.astype(int) + mask.astype(int)) / 2
    assert np.abs(got - mean)[~background].max() <= 0.5


def test_blend_leaves_black_black() -> None:
    assert not blend_mask(black(8, 8), np.full((8, 8, 3), 255, np.uint8), WHITE).any()


def test_jpeg_keeps_the_colours() -> None:
    image = np.tile(np.array([200, 30, 60], np.uint8), (32, 32, 1))
    picture = cv2.imdecode(encode_jpeg(to_bgr(image)), cv2.IMREAD_COLOR)
    assert picture is not None
    assert np.abs(picture[:, :, ::-1].astype(int) - image).max() <= 3


def test_png_is_exact() -> None:
    mask = np.random.default_rng(0).integers(0, 256, (9, 7, 3), np.uint8)
    np.testing.assert_array_equal(cv2.imdecode(encode_png(mask), cv2.IMREAD_COLOR)[:, :, ::-1], mask)


def test_jpeg_has_a_size_limit() -> None:
    with pytest.raises(EncodeError, match=r"70000 x 1 pixels cannot be written as \.jpg"):
        encode_jpeg(black(1, 70000))


coordinates = st.floats(-1e6, 1e6, width=32)
records = st.builds(
    record,
    st.lists(coordinates, min_size=4, max_size=4) | st.lists(st.floats(-5, 200, width=32), min_size=4, max_size=4),
    st.text(max_size=40) | st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=80),
    st.floats(0, 1, width=32),
    st.integers(0, 10**6),
)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 180), st.integers(1, 180), st.sampled_from([1, 3, 4]), st.lists(records, max_size=5))
def test_any_detections_give_a_picture_of_the_images_size(
    height: int, width: int, channels: int, found: list[dict[str, Any]]
) -> None:
    image = np.full((height, width, channels), 128, np.uint8)
    picture = cv2.imdecode(encode_jpeg(draw_detections(image, found)), cv2.IMREAD_COLOR)
    assert picture is not None
    assert picture.shape == (height, width, 3)
    assert (image == 128).all()


@pytest.mark.parametrize(("height", "inside"), [(30, False), (120, True)], ids=["would be hidden", "room enough"])
def test_a_label_never_hides_half_of_its_box(height: int, inside: bool) -> None:
    image = np.full((800, 1200, 3), 255, np.uint8)
    record = {"bounding_box": [400, 300, 560, 300 + height], "class": 0, "class_label": "heading", "confidence": 0.8}
    drawn = draw_detections(image, [record])
    inner = drawn[304 : 300 + height - 4, 404:556]
    assert (inner != 255).any() == inside
