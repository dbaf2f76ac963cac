"""Images to network input, against values worked out by hand and against plain NumPy arithmetic."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

from runtimes.preprocessors.base import BasePreprocessor
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
ANTIALIAS = {"interpolation": "antialias", "crop": True}
FLOATS = {"resize_dtype": "float32"}
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
        # Weights 3 3 1 out of 7 at the border: 255 * 24 / 49.
        pytest.param(CHECKERBOARD, "antialias", [125, 130, 130, 125], id="antialias"),
        # A triangle of weights 5 7 7 5 3 1 out of 28, in both directions: 255 * (5 / 28) ** 2.
        pytest.param(CORNER, "antialias", [8, 0, 0, 0], id="B63b-antialias"),
    ],
)
def test_b63_resize_filter(grey: np.ndarray, interpolation: str, expected: Any) -> None:
    image = np.repeat(grey[:, :, None], 3, axis=2)
    planes = run(image, height=2, width=2, interpolation=interpolation, image_range_scale=False)
    wanted = [255, 0, 0, 0] if expected is None else np.broadcast_to(expected, 4).tolist()
    assert planes[0].ravel().tolist() == wanted


@pytest.mark.parametrize("interpolation", ["antialias", "area", "cubic", "linear", "nearest"])
@pytest.mark.parametrize("preserve_aspect", [False, True])
def test_b63_an_image_of_the_networks_size_is_unchanged(interpolation: str, preserve_aspect: bool) -> None:
    image = noise(4, 4, 3)
    planes = run(image, interpolation=interpolation, preserve_aspect=preserve_aspect, image_range_scale=False)
    np.testing.assert_array_equal(planes, image.transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({}, 0.50196, id="scaled-only"),
        pytest.param(IMAGENET, 0.0741, id="imagenet-red"),
    ],
)
def test_b59_a_pixel_of_128(settings: dict[str, Any], expected: float) -> None:
    assert run(flat((128, 7, 9)), **settings)[0] == pytest.approx(np.full((4, 4), expected), abs=5e-5)


def test_b61_pixels_as_they_are() -> None:
    assert (run(flat((255, 255, 255)), image_range_scale=False) == 255.0).all()


@pytest.mark.parametrize(
    ("pixel", "settings", "expected"),
    [
        pytest.param(0, {"mean": [0.5] * 3, "std": [0.25] * 3}, -2.0, id="own-mean"),
        pytest.param(200, {"image_range_scale": False, "mean": [100] * 3, "std": [50] * 3}, 2.0, id="mean-of-pixels"),
    ],
)
def test_mean_and_std(pixel: int, settings: dict[str, Any], expected: float) -> None:
    assert run(flat((pixel, 7, 9)), **settings)[0] == pytest.approx(np.full((4, 4), expected), abs=1e-6)


def test_b71_graphs_of_bytes_and_halves_get_the_same_pixels() -> None:
    image = noise(4, 4, 3)
    planes = run(image, image_range_scale=False)
    np.testing.assert_array_equal(planes.astype(np.uint8), image.transpose(2, 0, 1))
    np.testing.assert_array_equal(planes.astype(np.float16), image.transpose(2, 0, 1))
    # The largest step of a half below 1 is 2 ** -11.
    assert np.abs(run(image).astype(np.float16) - image.transpose(2, 0, 1) / 255).max() <= 2**-12


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


def test_b65_grey_is_replicated() -> None:
    image = noise(480, 640, 1)
    planes = run(image, height=480, width=640, image_range_scale=False)
    np.testing.assert_array_equal(planes, np.broadcast_to(image[:, :, 0], (3, 480, 640)))


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [
        pytest.param(255, (10, 20, 30), id="opaque"),
        pytest.param(0, (255, 255, 255), id="transparent-is-white"),
        # 255 + (c - 255) * 51 / 255 = 255 + (c - 255) / 5
        pytest.param(51, (206, 208, 210), id="composited-on-white"),
    ],
)
def test_b66_alpha_is_composited_on_white(alpha: int, expected: tuple[int, ...]) -> None:
    planes = run(flat((10, 20, 30, alpha)), image_range_scale=False)
    assert planes.mean(axis=(1, 2)).tolist() == list(expected)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        # ITU-R BT.601: 0.299 R + 0.587 G + 0.114 B
        pytest.param(flat((255, 0, 0)), 76, id="red"),
        pytest.param(flat((10, 20, 30)), 18, id="mixed"),
        pytest.param(flat((77,)), 77, id="grey"),
        pytest.param(flat((0, 0, 0, 0)), 255, id="transparent"),
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
    for settings in ({}, {"preserve_aspect": True, "width": 6}, {"interpolation": "area"}, ANTIALIAS, FLOATS):
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
@pytest.mark.parametrize("interpolation", ["antialias", "area", "linear"])
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
        pytest.param(np.full((4, 4, 3), 51559, np.uint16), "uint16", id="B68-sixteen-bits"),
        pytest.param(np.zeros((4, 4, 3), np.float32), "float32", id="float"),
        pytest.param(np.zeros((), np.uint8), r"shape \[\]", id="scalar"),
    ],
)
def test_b65_b68_what_is_no_image_is_refused(image: np.ndarray, got: str) -> None:
    with pytest.raises(ImageError, match=rf"^image: expected uint8 H x W x C .*, got {got}$"):
        run(image)


@pytest.mark.parametrize("settings", [{}, {"preserve_aspect": True}], ids=["stretch", "letterbox"])
def test_b70_a_huge_image_works_and_the_next_one_too(settings: dict[str, Any]) -> None:
    prepare = BasePreprocessor({**SETTINGS, **settings})
    batch, (placement,) = prepare([np.zeros((10_000, 10_000, 3), np.uint8)])
    assert placement.source == (10_000, 10_000)
    assert not batch.any()
    np.testing.assert_array_equal(prepare([flat((9, 9, 9))])[0], np.full((1, 3, 4, 4), np.float32(9) / np.float32(255)))


@pytest.mark.parametrize("shape", [(1, 5000, 3), (40_000, 3, 3)])
def test_b70_a_line_is_not_blown_up_to_be_cropped(shape: tuple[int, ...]) -> None:
    with pytest.raises(
        ImageError, match=rf"^image: expected sides of at most 1 : 100, .* got {shape[0]} x {shape[1]} "
    ):
        run(np.zeros(shape, np.uint8), crop=True)
    assert run(np.full((1, 100, 3), 7, np.uint8), crop=True, image_range_scale=False).tolist() == [[[7.0] * 4] * 4] * 3
