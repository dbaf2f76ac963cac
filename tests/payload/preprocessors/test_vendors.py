"""Network inputs against the vendors' own: bit for bit where they use OpenCV, within a level where they antialias.

tests/data/inputs: a picture, and in vendors.npz what vendors make of it (uint8 [C, H, W]; `rf-detr` float32), each by
the preprocessing code of the package named below.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from runtimes.preprocessors.base import BasePreprocessor

INPUTS = Path(__file__).parents[2] / "data" / "inputs"
PIXELS: dict[str, Any] = {
    "channels": 3,
    "layout": "NCHW",
    "interpolation": "linear",
    "preserve_aspect": False,
    "image_range_scale": False,
    "mean": None,
    "std": None,
    "channel_order": "rgb",
}
LETTERBOX = {"preserve_aspect": True}
TOP_LEFT = {**LETTERBOX, "letterbox": "top_left", "resize_rounding": "floor"}
PILLOW = {"interpolation": "antialias"}
IMAGENET = {"image_range_scale": True, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}


def picture(path: Path = INPUTS / "chelsea.png") -> np.ndarray:
    return cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)


def run(image: np.ndarray, height: int, width: int, **settings: Any) -> np.ndarray:
    batch, _ = BasePreprocessor({**PIXELS, "height": height, "width": width, **settings})([image])
    return batch[0]


@pytest.mark.parametrize(
    ("name", "settings", "sha256"),
    [
        # Ultralytics 8.4.190: YOLO letterboxes, RT-DETR stretches.
        pytest.param("chelsea__letterbox_224x320", LETTERBOX, "f171a142387774fa"),
        pytest.param("chelsea__letterbox_256x416", LETTERBOX, "bb1bf9a09b4076c5"),
        pytest.param("chelsea__letterbox_320x320", LETTERBOX, "1a5a54b07b4bd4ee"),
        pytest.param("chelsea__letterbox_32x64", LETTERBOX, "14abbf7acd076e44"),
        pytest.param("chelsea__letterbox_64x64", LETTERBOX, "ca72d550df963bdf"),
        pytest.param("chelsea__stretch_256x416", {}, "06dd1f6a06044369"),
        pytest.param("chelsea__stretch_320x320", {}, "a61e2ab89a519235"),
        pytest.param("docpage0__letterbox_1024x1024", LETTERBOX, "c219f20210c6cbaa"),
        pytest.param("docpage1__letterbox_1024x1024", LETTERBOX, "9e555177988e97df"),
    ],
)
def test_ultralytics_inputs_are_equal_bit_for_bit(name: str, settings: dict[str, Any], sha256: str) -> None:
    source, _, size = name.replace("__", "_").split("_")
    path = INPUTS / f"{source}.png"
    if not path.exists():
        if "ZOO" not in os.environ:
            pytest.skip("set ZOO to the folder with the pictures")
        path = Path(os.environ["ZOO"]) / "images" / f"{source}.png"
    height, width = map(int, size.split("x"))
    planes = run(picture(path), height, width, **settings)
    pixels = np.ascontiguousarray(planes.transpose(1, 2, 0).astype(np.uint8))
    assert hashlib.sha256(pixels.tobytes()).hexdigest().startswith(sha256)


@pytest.mark.parametrize(
    ("vendor", "settings", "levels"),
    [
        # libreyolo 1.6.0
        pytest.param("yolo9", TOP_LEFT, 0),
        pytest.param("yolox", {**TOP_LEFT, **PILLOW, "channel_order": "bgr"}, 1),
        pytest.param("yolo-nas", {**LETTERBOX, **PILLOW, "letterbox_margin": 4}, 1),
        # torchvision's Resize and CenterCrop on Pillow 12 images, as Ultralytics' classifiers do
        pytest.param("classify", {**PILLOW, "crop": True}, 1),
        # torch 2.13's bilinear with antialias on bytes, as transformers' processors do
        pytest.param("hf", PILLOW, 1),
    ],
)
def test_other_vendors_inputs(vendor: str, settings: dict[str, Any], levels: int) -> None:
    expected = np.load(INPUTS / "vendors.npz")[vendor].astype(np.float32)
    difference = np.abs(run(picture(), *expected.shape[1:], **settings) - expected)
    assert difference.max() <= levels
    # Near-ties only.
    assert (difference > 0).mean() < 0.005


def test_a_tall_image_is_cropped_at_half_a_pixel_as_torchvision_does() -> None:
    expected = np.load(INPUTS / "vendors.npz")["classify-tall"].astype(np.float32)
    found = run(picture().transpose(1, 0, 2), 65, 65, **PILLOW, crop=True)
    assert np.abs(found - expected).max() <= 1


def test_rf_detr_resizes_floats() -> None:
    expected = np.load(INPUTS / "vendors.npz")["rf-detr"]
    floats = run(picture(), 64, 64, **IMAGENET, resize_dtype="float32")
    assert np.abs(floats - expected).max() < 5e-5
    # Bytes are up to half a level off, which is 0.009 after normalisation.
    assert 5e-3 < np.abs(run(picture(), 64, 64, **IMAGENET) - expected).max() < 0.02


def test_padding_has_the_value_that_is_asked_for() -> None:
    image = np.full((4, 8, 3), 200, np.uint8)
    for resize_dtype in ("uint8", "float32"):
        planes = run(image, 8, 8, **LETTERBOX, pad_value=128, resize_dtype=resize_dtype)
        assert planes[0, :, 0].tolist() == [128, 128, 200, 200, 200, 200, 128, 128]


def test_floats_are_not_rounded_between_resizing_and_normalising() -> None:
    # A step from 0 to 255 over two pixels: a quarter and three quarters, 63.75 and 191.25.
    image = np.repeat(np.array([[0, 255]], np.uint8), 3).reshape(2, 1, 3).transpose(1, 0, 2)
    planes = run(image, 1, 4, resize_dtype="float32", channel_order="bgr", mean=[1] * 3, std=[2, 4, 8])
    assert planes[2, 0].tolist() == [-0.5, 31.375, 95.125, 127.0]
    assert planes[0, 0].tolist() == [-0.125, 7.84375, 23.78125, 31.75]


@pytest.mark.parametrize(
    ("row", "width", "expected"),
    [
        # Weights 3 3 1 of 7 at the border, 1 3 3 1 of 8 inside: 4 / 8 is rounded up, as Pillow does.
        pytest.param([0, 4, 0, 0, 0, 0, 0, 0], 4, [2, 1, 0, 0], id="halves-go-up"),
        # What is made larger is interpolated between its pixels: a quarter and three quarters of 255.
        pytest.param([0, 255], 4, [0, 64, 191, 255], id="larger"),
        pytest.param([7], 3, [7, 7, 7], id="one-pixel"),
    ],
)
def test_antialiased_values_as_pillow_has_them(row: list[int], width: int, expected: list[int]) -> None:
    image = np.repeat(np.array([row], np.uint8)[:, :, None], 3, axis=2)
    assert run(image, 1, width, **PILLOW)[0, 0].tolist() == expected
    assert run(image.transpose(1, 0, 2), width, 1, **PILLOW)[0, :, 0].tolist() == expected
