"""Segmentation heads of every kind."""

from __future__ import annotations

import numpy as np
import pytest

from postprocessors.contract import DecodeError
from postprocessors.geometry import FrameGeometry
from postprocessors.results import Detections
from postprocessors.yolo.tests.heads import head, plain
from postprocessors.yolo.tests.task_heads import task_decoder

TASK = "instance_segmentation"
NETWORK = FrameGeometry((640, 640), (640, 640), (640, 640))
WIDE = FrameGeometry((720, 1280), (360, 640), (640, 640), (140, 0))


def prototypes(count: int = 32, batch: int = 1) -> np.ndarray:
    """Return [B, count, 160, 160]: number 0 is 1 in the left half and -1 in the right one, number 1 the opposite."""
    planes = np.zeros((batch, count, 160, 160), np.float32)
    planes[:, 0, :, :80], planes[:, 0, :, 80:] = 1, -1
    planes[:, 1] = -planes[:, 0]
    return planes


def coefficients(side: int, anchors: int) -> np.ndarray:
    """Return [1, 32, anchors]: anchor 0 takes the left or the right half, the others nothing."""
    values = np.zeros((1, 32, anchors), np.float32)
    values[0, side, 0] = 2
    return values


def shape_of(found: Detections) -> list[tuple[int, int, int, int]]:
    """Return (top, left, height, width) of what every mask holds, which must be a filled rectangle."""
    assert found.masks is not None
    shapes: list[tuple[int, int, int, int]] = []
    for mask in found.masks:
        rows, columns = np.flatnonzero(mask.pixels.any(axis=1)), np.flatnonzero(mask.pixels.any(axis=0))
        assert mask.area == len(rows) * len(columns)
        shapes.append((mask.top + int(rows[0]), mask.left + int(columns[0]), len(rows), len(columns)))
    return shapes


RAW = np.concatenate([head(10, 8400, (320, 320, 64, 64, 3, 0.8)), coefficients(0, 8400)], axis=1)
ROW = np.zeros((1, 300, 38), np.float32)
ROW[0, 0, :7] = 288, 288, 352, 352, 0.8, 3, 2
OBJECTNESS = np.insert(RAW, 4, 1.0, axis=1).transpose(0, 2, 1)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(RAW, id="raw"),
        pytest.param(RAW.transpose(0, 2, 1), id="channels-last"),
        pytest.param(RAW.astype(np.float16), id="half"),
        pytest.param(np.ascontiguousarray(OBJECTNESS), id="objectness"),
        pytest.param(ROW, id="end-to-end"),
        pytest.param(ROW[:, :100], id="suppressed-in-the-graph"),
    ],
)
@pytest.mark.parametrize("prototypes_first", [False, True])
def test_every_head_gives_the_same(raw: np.ndarray, prototypes_first: bool) -> None:
    outputs = [raw, prototypes().astype(raw.dtype)]
    found = task_decoder(TASK, 10)(outputs[::-1] if prototypes_first else outputs, [NETWORK])[0]
    assert [(c, box) for c, _, box in plain(found)] == [(3, [288.0, 288.0, 352.0, 352.0])]
    assert shape_of(found) == [(288, 288, 64, 32)]


def test_b31_a_mask_coefficient_is_no_score() -> None:
    raw = np.concatenate([head(80, 8400, (320, 320, 64, 64, 3, 0.8)), np.zeros((1, 32, 8400), np.float32)], axis=1)
    raw[0, 84 + 5, 0] = 1.7
    planes = np.zeros((1, 32, 160, 160), np.float32)
    planes[0, 5] = 1
    found = task_decoder(TASK, 80)([raw, planes], [NETWORK])[0]
    assert plain(found) == [(3, 0.8, [288.0, 288.0, 352.0, 352.0])]
    assert shape_of(found) == [(288, 288, 64, 64)]


def test_masks_are_of_the_source_s_size() -> None:
    found = task_decoder(TASK, 10)([RAW, prototypes()], [WIDE])[0]
    assert plain(found)[0][2] == [576.0, 296.0, 704.0, 424.0]
    assert shape_of(found) == [(296, 576, 128, 64)]


def test_each_image_has_its_own_prototypes() -> None:
    planes = np.concatenate([prototypes(), -prototypes()])
    found = task_decoder(TASK, 10)([np.repeat(RAW, 2, axis=0), planes], [NETWORK, WIDE])
    assert [shape_of(image) for image in found] == [[(288, 288, 64, 32)], [(296, 640, 128, 64)]]


def test_empty_masks_are_dropped_after_max_det() -> None:
    raw = np.concatenate(
        [
            head(10, 8400, (100, 320, 60, 60, 3, 0.9), (500, 320, 60, 60, 3, 0.8), (100, 100, 60, 60, 3, 0.7)),
            np.zeros((1, 32, 8400), np.float32),
        ],
        axis=1,
    )
    # All three take the left half; the second one's box lies in the right one.
    raw[0, 14, :3] = 2
    scores = [score for _, score, _ in plain(task_decoder(TASK, 10)([raw, prototypes()], [NETWORK])[0])]
    assert scores == [0.9, 0.7]
    # The dropped one has taken a place.
    found = task_decoder(TASK, 10, max_det=2)([raw, prototypes()], [NETWORK])[0]
    assert [score for _, score, _ in plain(found)] == [0.9]
    assert len(found.masks or ()) == 1


def test_nothing_found() -> None:
    (found,) = task_decoder(TASK, 10)([np.zeros_like(RAW), prototypes()], [NETWORK])
    assert (len(found), found.masks) == (0, ())


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        pytest.param([RAW], r"expected mask prototypes \[B, M, h, w\] beside the head, got \[1, 46, 8400\]", id="none"),
        pytest.param([RAW, prototypes(16)], r"30 or 31 channels .* and 16 behind them .* got 46", id="too-few"),
        pytest.param([RAW, prototypes(), prototypes()], r"expected one output \[B, 32, h, w\]", id="two"),
        pytest.param([RAW, prototypes()[:, :, :0]], r"expected one output \[B, 32, h, w\]", id="no-cells"),
        pytest.param(
            [np.zeros((1, 9, 4), np.float32), np.zeros((1, 9, 10), np.float32), prototypes()],
            "for the 0 mask coefficients",
            id="boxes-and-scores",
        ),
    ],
)
def test_what_has_no_masks_is_refused(outputs: list[np.ndarray], message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        task_decoder(TASK, 10)(outputs, [NETWORK])


def test_prototypes_of_fewer_images_are_refused() -> None:
    with pytest.raises(DecodeError, match=r"expected one output \[B, 32, h, w\]"):
        task_decoder(TASK, 10)([np.repeat(RAW, 2, axis=0), prototypes()], [NETWORK, NETWORK])


def test_maps_beside_the_prototypes_are_left_alone() -> None:
    maps = [np.full((1, 74, side, side), 9, np.float32) for side in (80, 40, 20)]
    found = task_decoder(TASK, 10)([*maps, RAW, prototypes()], [NETWORK])[0]
    assert shape_of(found) == [(288, 288, 64, 32)]
