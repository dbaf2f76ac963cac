"""marshal in the tensors profile: what base found, drawn; and what a caller may send instead of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest

import triton_python_backend_utils as pb_utils
from overlay_shapes import mask_pixels, run_lengths
from postprocessors.palette import colour_of
from postprocessors.results import InstanceMask
from postprocessors.rle import run_lengths as runs_of
from postprocessors.rle import to_string
from tests.payload.marshal.wire import error_of, outputs_of

HEIGHT, WIDTH = 96, 128
GREY = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)
EMPTY = b'{"detections": []}'


def record(x1: float = 16, y1: float = 16, x2: float = 112, y2: float = 80, class_id: int = 1) -> dict[str, Any]:
    return {"bounding_box": [x1, y1, x2, y2], "class": class_id, "class_label": "dog", "confidence": 0.5}


def text(**parts: object) -> bytes:
    return json.dumps(parts).encode()


def plane(kind: str, values: np.ndarray, shown: tuple[float, ...] = (0, 0, 1, 1)) -> bytes:
    return text(kind=kind, size=values.shape, shown=shown) + b"\n" + values.astype(np.uint8).tobytes()


def request(images: np.ndarray | None, *drawn: bytes, padding: bytes = b" ") -> pb_utils.InferenceRequest:
    """Return a request as the ensemble makes it: one text per image, padded to the longest."""
    longest = max(map(len, drawn))
    rows = [np.frombuffer(content + padding * (longest - len(content)), np.uint8) for content in drawn]
    inputs = [pb_utils.Tensor("overlay_detections", np.stack(rows))]
    return pb_utils.InferenceRequest(inputs=inputs if images is None else [pb_utils.Tensor("input", images), *inputs])


@pytest.fixture
def model(load: Callable[..., Any]) -> Any:
    return load(profile="tensors")


def pictures(response: pb_utils.InferenceResponse) -> list[np.ndarray]:
    """Return the pictures of a response, RGB."""
    (overlay,) = outputs_of(response).values()
    assert list(outputs_of(response)) == ["overlay"]
    assert overlay.dtype == np.uint8
    return [cv2.cvtColor(cv2.imdecode(file, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB) for file in overlay]


def picture(model: Any, drawn: bytes, image: np.ndarray = GREY) -> np.ndarray:
    (response,) = model.execute([request(image[np.newaxis], drawn)])
    (found,) = pictures(response)
    assert found.shape == image.shape
    return found


def is_near(pixel: np.ndarray, colour: tuple[int, int, int], tolerance: int = 40) -> bool:
    return bool(np.abs(pixel.astype(int) - colour).max() <= tolerance)


@pytest.mark.parametrize("drawn", [b"", b"   ", b"\0\0", EMPTY, EMPTY + b"  ", plane("none", np.zeros((0, 0)))])
def test_nothing_found_is_the_plain_image(model: Any, drawn: bytes) -> None:
    assert np.abs(picture(model, drawn).astype(int) - 90).max() <= 2


def test_boxes_are_those_of_the_capture_profile(model: Any) -> None:
    found = picture(model, text(detections=[record()]))
    assert is_near(found[17, 60], (0, 255, 0), 80)
    assert is_near(found[50, 60], (90, 90, 90), 10)


def test_masks_are_blended_in_their_classes_colour(model: Any) -> None:
    cut_out = InstanceMask(40, 30, np.ones((30, 50), np.uint8))
    mask = {"size": [HEIGHT, WIDTH], "counts": to_string(runs_of(cut_out, (HEIGHT, WIDTH)))}
    found = picture(model, text(detections=[record(class_id=4)], masks=[mask]))
    colour = tuple((channel + 90) // 2 for channel in colour_of(5))
    assert is_near(found[55, 55], colour, 12)
    assert is_near(found[75, 55], (90, 90, 90), 12)


def test_the_best_mask_is_on_top(model: Any) -> None:
    cut_out = InstanceMask(40, 30, np.ones((30, 50), np.uint8))
    mask = {"size": [HEIGHT, WIDTH], "counts": to_string(runs_of(cut_out, (HEIGHT, WIDTH)))}
    found = picture(model, text(detections=[record(class_id=4), record(class_id=7)], masks=[mask, mask]))
    below = (np.array(colour_of(8)) + 90) // 2
    assert is_near(found[55, 55], tuple((np.array(colour_of(5)) + below) // 2), 12)


@pytest.mark.parametrize("seed", range(8))
def test_the_masks_pixels_are_those_that_were_encoded(seed: int) -> None:
    random = np.random.default_rng(seed)
    height, width = (int(side) for side in random.integers(1, 300, 2))
    pixels = (random.random((height, width)) < random.random()).astype(np.uint8)
    if seed < 2:
        pixels[:] = seed
    counts = to_string(runs_of(InstanceMask(0, 0, pixels), (height, width)))
    assert run_lengths(counts).tolist() == runs_of(InstanceMask(0, 0, pixels), (height, width)).tolist()
    assert sorted(mask_pixels(counts, height, width).tolist()) == np.flatnonzero(pixels).tolist()


def test_rotated_boxes_are_drawn_instead_of_those_around_them(model: Any) -> None:
    drawn = text(detections=[record(14, -2, 114, 98)], rotated=[[64, 48, 80, 40, np.pi / 4]])
    found = picture(model, drawn)
    # The corner at the right end of the upper side, and the middle of the enclosing box's left side.
    corner = 64 + 28.28 + 14.14, 48 + 28.28 - 14.14
    assert found[round(corner[1]), round(corner[0]) - 1, 1] > 150
    assert is_near(found[48, 15], (90, 90, 90), 12)


def test_visible_keypoints_are_drawn(model: Any) -> None:
    drawn = text(detections=[record()], keypoints=[[[40, 60, 0.9], [90, 60, 0.1], [1e30, -1e30, 1]]])
    found = picture(model, drawn)
    assert not is_near(found[60, 40], (90, 90, 90), 30)
    assert is_near(found[60, 90], (90, 90, 90), 12)


def test_class_maps_are_coloured_and_class_0_is_left(model: Any) -> None:
    classes = np.zeros((HEIGHT, WIDTH), np.uint8)
    classes[:, 64:] = 7
    found = picture(model, plane("classes", classes))
    assert is_near(found[48, 100], tuple((channel + 90) // 2 for channel in colour_of(7)), 8)
    assert is_near(found[48, 20], (90, 90, 90), 4)


def test_heat_lies_where_the_image_lies_in_the_map(model: Any) -> None:
    heat = np.zeros((8, 8), np.uint8)
    heat[4, 6] = 255
    # The image fills rows 2 to 6 of the map: its row 4.5 is the image's middle and a bit.
    found = picture(model, plane("heat", heat, (0.25, 0, 0.5, 1)))
    row, column = (4.5 - 2) / 4 * HEIGHT, 6.5 / 8 * WIDTH
    assert found[round(row), round(column), 0] > 150
    assert found[round(row), round(column), 2] < 60
    assert is_near(found[10, 20], (90, 90, 90), 4)
    rows, columns = np.nonzero(found[:, :, 0] > 130)
    assert abs(rows.mean() - row) < 2
    assert abs(columns.mean() - column) < 2


def test_a_request_of_several_images(model: Any) -> None:
    noise = np.random.default_rng(0).integers(0, 255, GREY.shape).astype(np.uint8)
    (response,) = model.execute([request(np.stack([GREY, noise]), EMPTY, text(detections=[record()]))])
    first, second = pictures(response)
    assert np.abs(first.astype(int) - 90).max() <= 2
    assert np.array_equal(second, picture(model, text(detections=[record()]), noise))


RLE = {"size": [HEIGHT, WIDTH], "counts": "0"}
ANOTHERS = "overlay_detections: expected what this model's base returns"


@pytest.mark.parametrize(
    ("images", "drawn", "said"),
    [
        pytest.param(None, EMPTY, "input: the request has no such input", id="no image"),
        pytest.param(GREY, EMPTY, "input: expected images [B, H, W, 3]", id="3 axes"),
        pytest.param(GREY[np.newaxis].astype(np.float32), EMPTY, "input: got float32", id="floats"),
        pytest.param(GREY[np.newaxis, :0], EMPTY, "input: got uint8 [0, 128, 3]", id="no rows"),
        pytest.param(np.zeros((1, 1, 70000, 3), np.uint8), EMPTY, "70000 x 1 pixels cannot be written", id="wide"),
        pytest.param(np.stack([GREY, GREY]), EMPTY, "input: expected images [B, H, W, 3]", id="one text for two"),
        *(
            pytest.param(GREY[np.newaxis], drawn, ANOTHERS, id=name)
            for name, drawn in {
                "no JSON": b"{",
                "a list": b"[1]",
                "bytes": bytes(range(1, 200)),
                "deep": b"[" * 100_000,
                "no boxes": text(detections=[{"class": 1}]),
                "boxes without end": b'{"detections": [{"bounding_box": [NaN, 1e999, 2, 3], "class": 1}]}',
                "a mask of another image": text(detections=[record()], masks=[{"size": [1, 2], "counts": "2"}]),
                "a turned mask": text(
                    detections=[record()],
                    masks=[{"size": [WIDTH, HEIGHT], "counts": to_string(np.array([GREY[..., 0].size]))}],
                ),
                "a short mask": text(detections=[record()], masks=[RLE]),
                "an odd mask": text(detections=[record()], masks=[{**RLE, "counts": "\u20ac"}]),
                "a huge plane": text(kind="classes", size=[10**9, 10**9], shown=[0, 0, 1, 1]) + b"\n",
                "a plane of another size": plane("classes", np.zeros((4, 4))),
                "no plane": text(kind="heat", size=[0, 0], shown=[0, 0, 1, 1]) + b"\n",
                "keypoints": text(detections=[record()], keypoints=[[[1, 2]]]),
            }.items()
        ),
    ],
)
def test_one_bad_request_among_good_ones(model: Any, images: np.ndarray | None, drawn: bytes, said: str) -> None:
    good = request(GREY[np.newaxis], text(detections=[record()]))
    first, bad, last = model.execute([good, request(images, drawn), good])
    assert said in error_of(bad)
    assert error_of(bad).startswith("marshal_widget: ")
    assert len(error_of(bad)) < 500
    assert bad.error().code() == pb_utils.TritonError.INVALID_ARG
    assert np.array_equal(pictures(first)[0], pictures(last)[0])
    assert not [line for level, line in pb_utils.Logger.lines if level == "error"]
