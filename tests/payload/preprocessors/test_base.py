"""Images to network input, against values worked out by hand and against plain NumPy arithmetic."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

from runtimes.preprocessors.base import BasePreprocessor, Placement, place
from runtimes.preprocessors.colour import ImageError

# The padding of the YOLO exporters.
GREY = 114
SETTINGS: dict[str, Any] = {
    "height": 4,
    "width": 4,
    "channels": 3,
    "layout": "NCHW",
    "interpolation": "linear",
    "preserve_aspect": False,
    "image_range_scale": True,
    "mean": None,
    "std": None,
    "channel_order": "rgb",
}
IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}


def run(image: np.ndarray, **settings: Any) -> np.ndarray:
    """Return the network input of one image, without the batch axis."""
    batch, _ = BasePreprocessor({**SETTINGS, **settings})([image])
    assert batch.dtype == np.float32
    assert batch.flags.c_contiguous
    return batch[0]


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(0, 256, shape, np.uint8)


def flat(colour: tuple[int, ...], height: int = 4, width: int = 4) -> np.ndarray:
    return np.full((height, width, len(colour)), colour, np.uint8)


@pytest.mark.parametrize(
    ("source", "network", "expected"),
    [
        pytest.param((720, 1280), (640, 640), ((360, 640), (140, 0)), id="wide"),
        pytest.param((1280, 720), (640, 640), ((640, 360), (0, 140)), id="tall"),
        pytest.param((300, 451), (320, 320), ((213, 320), (53, 0)), id="odd-padding-goes-below"),
        pytest.param((300, 451), (256, 416), ((256, 385), (0, 15)), id="odd-padding-goes-right"),
        pytest.param((64, 64), (640, 640), ((640, 640), (0, 0)), id="scaled-up"),
        pytest.param((1, 1), (640, 384), ((384, 384), (128, 0)), id="one-pixel"),
        pytest.param((1, 4000), (640, 640), ((1, 640), (319, 0)), id="a-line-keeps-a-row"),
        pytest.param((5, 2), (5, 5), ((5, 2), (0, 1)), id="half-to-even"),
    ],
)
def test_b52_letterbox(source: tuple[int, int], network: tuple[int, int], expected: Any) -> None:
    assert place(source, network, preserve_aspect=True) == Placement(source, expected[0], network, expected[1])


def test_stretch() -> None:
    assert place((3, 5), (8, 4), preserve_aspect=False) == Placement((3, 5), (8, 4), (8, 4), (0, 0))


def test_letterbox_pads_with_grey_around_the_resized_image() -> None:
    image = noise(300, 451, 3)
    planes = run(image, height=320, width=320, preserve_aspect=True, image_range_scale=False)
    inner = cv2.resize(image, (320, 213), interpolation=cv2.INTER_LINEAR)
    expected = np.full((320, 320, 3), GREY, np.uint8)
    expected[53 : 53 + 213] = inner
    np.testing.assert_array_equal(planes, expected.transpose(2, 0, 1))


def test_b54_height_comes_before_width() -> None:
    image = flat((0, 0, 0), 640, 384)
    image[600:, :20] = 255
    planes = run(image, height=384, width=640)
    assert planes.shape == (3, 384, 640)
    assert planes[0, -1, 0] == 1.0
    assert planes[0, 0, -1] == 0.0


CHECKERBOARD = (np.indices((4, 4)).sum(axis=0) % 2 * 255).astype(np.uint8)
CORNER = np.zeros((8, 8), np.uint8)
CORNER[0, 0] = 255


@pytest.mark.parametrize(
    ("grey", "interpolation", "expected"),
    [
        # 127.5 on uint8 is 128 (ties upwards); nearest would give 0 or 255.
        pytest.param(CHECKERBOARD, "linear", 128, id="B63a-linear"),
        # Sample centre 1.5 touches pixels 1 and 2 only: no antialiasing.
        pytest.param(CORNER, "linear", 0, id="B63b-linear-is-not-antialiased"),
        pytest.param(CHECKERBOARD, "area", 128, id="area"),
        pytest.param(CORNER, "nearest", None, id="nearest"),
        # 255 / 16 of each 4 x 4 block.
        pytest.param(CORNER, "area", [16, 0, 0, 0], id="area-averages"),
    ],
)
def test_b63_resize_filter(grey: np.ndarray, interpolation: str, expected: Any) -> None:
    image = np.repeat(grey[:, :, None], 3, axis=2)
    planes = run(image, height=2, width=2, interpolation=interpolation, image_range_scale=False)
    wanted = [255, 0, 0, 0] if expected is None else np.broadcast_to(expected, 4).tolist()
    assert planes[0].ravel().tolist() == wanted


@pytest.mark.parametrize("interpolation", ["area", "cubic", "linear", "nearest"])
@pytest.mark.parametrize("preserve_aspect", [False, True])
def test_b63_an_image_of_the_networks_size_is_unchanged(interpolation: str, preserve_aspect: bool) -> None:
    image = noise(4, 4, 3)
    planes = run(image, interpolation=interpolation, preserve_aspect=preserve_aspect, image_range_scale=False)
    np.testing.assert_array_equal(planes, image.transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("pixel", "settings", "expected"),
    [
        pytest.param(128, {}, 128 / 255, id="B59-scaled-only"),
        pytest.param(128, IMAGENET, (128 / 255 - 0.485) / 0.229, id="B59-imagenet-red"),
        pytest.param(255, {"image_range_scale": False}, 255.0, id="B61-raw-pixels"),
        pytest.param(0, {"mean": [0.5] * 3, "std": [0.25] * 3}, -2.0, id="own-mean"),
        pytest.param(200, {"image_range_scale": False, "mean": [100] * 3, "std": [50] * 3}, 2.0, id="mean-of-pixels"),
    ],
)
def test_value_of_a_pixel(pixel: int, settings: dict[str, Any], expected: float) -> None:
    assert run(flat((pixel, 7, 9)), **settings)[0] == pytest.approx(np.full((4, 4), expected), abs=1e-6)


def test_all_values_equal_plain_float32_arithmetic() -> None:
    image = np.arange(256, dtype=np.uint8).repeat(3).reshape(16, 16, 3)
    planes = run(image, height=16, width=16, **IMAGENET)
    mean, std = (np.float32(IMAGENET[key]) for key in ("mean", "std"))
    expected = (image.astype(np.float32) / np.float32(255) - mean) / std
    np.testing.assert_array_equal(planes, expected.transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("order", "expected"),
    [pytest.param("rgb", [1.0, 0.0, 0.0], id="B62-rgb"), pytest.param("bgr", [0.0, 0.0, 1.0], id="bgr")],
)
def test_b62_red(order: str, expected: list[float]) -> None:
    assert run(flat((255, 0, 0)), channel_order=order).mean(axis=(1, 2)).tolist() == expected


def test_mean_and_std_belong_to_the_colour_not_to_the_place() -> None:
    image = flat((10, 20, 30))
    np.testing.assert_array_equal(run(image, channel_order="bgr", **IMAGENET), run(image, **IMAGENET)[::-1])


def test_channels_last() -> None:
    image = noise(9, 7, 3)
    planes = run(image, width=6)
    np.testing.assert_array_equal(run(image, width=6, layout="NHWC"), planes.transpose(1, 2, 0))


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        pytest.param(flat((77,)), (77, 77, 77), id="B65-grey"),
        pytest.param(flat((10, 20, 30, 255)), (10, 20, 30), id="B66-opaque"),
        pytest.param(flat((10, 20, 30, 0)), (255, 255, 255), id="B66-transparent-is-white"),
        # 255 + (c - 255) * 51 / 255 = 255 + (c - 255) / 5
        pytest.param(flat((10, 20, 30, 51)), (206, 208, 210), id="B66-composited-on-white"),
    ],
)
def test_images_of_other_channels(image: np.ndarray, expected: tuple[int, ...]) -> None:
    assert run(image, image_range_scale=False).mean(axis=(1, 2)).tolist() == list(expected)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        # ITU-R BT.601: 0.299 R + 0.587 G + 0.114 B
        pytest.param(flat((255, 0, 0)), 76, id="B69-red"),
        pytest.param(flat((10, 20, 30)), 18, id="B69-mixed"),
        pytest.param(flat((77,)), 77, id="B69-grey"),
        pytest.param(flat((0, 0, 0, 0)), 255, id="B69-transparent"),
    ],
)
def test_b69_one_channel_networks(image: np.ndarray, expected: int) -> None:
    planes = run(image, channels=1, image_range_scale=False)
    assert planes.shape == (1, 4, 4)
    assert set(planes.ravel().tolist()) == {expected}
    letterboxed = run(image, channels=1, width=8, image_range_scale=False, preserve_aspect=True)
    assert letterboxed[0, 0].tolist() == [GREY] * 2 + [expected] * 4 + [GREY] * 2
    normalised = run(image, channels=1, layout="NHWC", mean=[0.5], std=[0.5])
    assert normalised == pytest.approx(np.full((4, 4, 1), (expected / 255 - 0.5) / 0.5), abs=1e-6)


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(lambda image: image[::-1, ::-1], id="turned"),
        pytest.param(lambda image: image[:, :, ::-1], id="channels-reversed"),
        pytest.param(lambda image: image[::2, 1::3], id="every-second"),
        pytest.param(lambda image: image.transpose(1, 0, 2), id="transposed"),
        pytest.param(lambda image: np.asfortranarray(image), id="fortran"),
        pytest.param(lambda image: image[:4, :4], id="cropped-to-the-network"),
        pytest.param(lambda image: np.broadcast_to(image[:1], image.shape), id="broadcast"),
    ],
)
@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("network_channels", [1, 3])
def test_b115_views_equal_copies(view: Any, channels: int, network_channels: int) -> None:
    image = view(noise(40, 44, channels))
    for settings in ({}, {"preserve_aspect": True, "width": 6}, {"interpolation": "area"}):
        np.testing.assert_array_equal(
            run(image, channels=network_channels, **settings),
            run(np.array(image, order="C"), channels=network_channels, **settings),
        )


def test_the_request_is_not_written_to() -> None:
    image = noise(4, 4, 3)
    before = image.copy()
    image.flags.writeable = False
    run(image)
    np.testing.assert_array_equal(image, before)


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 5000, 3), (40000, 1, 3), (3, 2000, 1), (1, 1, 1)])
@pytest.mark.parametrize("interpolation", ["area", "linear"])
@pytest.mark.parametrize("preserve_aspect", [False, True])
def test_tiny_and_long_images(shape: tuple[int, ...], interpolation: str, preserve_aspect: bool) -> None:
    planes = run(
        np.full(shape, 200, np.uint8), height=64, width=48, interpolation=interpolation, preserve_aspect=preserve_aspect
    )
    assert planes.shape == (3, 64, 48)
    expected = {np.float32(200) / np.float32(255)} | ({np.float32(GREY) / np.float32(255)} & set(planes.ravel()))
    assert set(planes.ravel()) == expected


def test_several_images_of_different_sizes() -> None:
    images = [noise(5, 9, 3), noise(30, 4, 1), noise(4, 4, 4)]
    batch, placements = BasePreprocessor({**SETTINGS, "preserve_aspect": True})(images)
    assert [placement.source for placement in placements] == [(5, 9), (30, 4), (4, 4)]
    for planes, image in zip(batch, images):
        np.testing.assert_array_equal(planes, run(image, preserve_aspect=True))


@pytest.mark.parametrize(
    ("image", "got"),
    [
        pytest.param(np.zeros((480, 640), np.uint8), r"shape \[480, 640\]", id="B65-two-axes"),
        pytest.param(np.zeros((1, 480, 640, 3), np.uint8), r"shape \[1, 480, 640, 3\]", id="batch-axis"),
        pytest.param(np.zeros((480, 640, 2), np.uint8), r"shape \[480, 640, 2\]", id="two-channels"),
        pytest.param(np.zeros((3, 480, 640), np.uint8), r"shape \[3, 480, 640\]", id="channels-first"),
        pytest.param(np.zeros((0, 640, 3), np.uint8), r"shape \[0, 640, 3\]", id="empty"),
        pytest.param(np.zeros((4, 4, 3), np.uint16), "uint16", id="B68-sixteen-bits"),
        pytest.param(np.zeros((4, 4, 3), np.float32), "float32", id="float"),
        pytest.param(np.zeros((), np.uint8), r"shape \[\]", id="scalar"),
    ],
)
def test_what_is_no_image_is_refused(image: np.ndarray, got: str) -> None:
    with pytest.raises(ImageError, match=rf"^image: expected uint8 H x W x C .*, got {got}$"):
        run(image)
