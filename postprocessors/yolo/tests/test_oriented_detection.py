"""Heads of rotated boxes of every kind."""

from __future__ import annotations

import math

import numpy as np
import pytest

from postprocessors.contract import DecodeError
from postprocessors.geometry import FrameGeometry
from postprocessors.yolo.tests.heads import SQUARE, head, plain
from postprocessors.yolo.tests.task_heads import task_decoder

TASK = "oriented_detection"
TURNED = math.pi / 6


def oriented(*rows: tuple[float, ...], classes: int = 15, anchors: int = 8400) -> np.ndarray:
    """Return a raw head; row i is cx, cy, w, h, class, score, angle of anchor i."""
    angles = np.zeros((1, 1, anchors), np.float32)
    angles[0, 0, : len(rows)] = [row[6] for row in rows]
    return np.concatenate([head(classes, anchors, *(row[:6] for row in rows)), angles], axis=1)


BOX = (320, 320, 100, 40, 3, 0.8, TURNED)
ROW = np.zeros((1, 300, 7), np.float32)
ROW[0, 0] = [320, 320, 100, 40, 0.8, 3, TURNED]
# 50 cos 30 + 20 sin 30, 50 sin 30 + 20 cos 30.
AROUND = [320 - 53.301, 320 - 42.321, 320 + 53.301, 320 + 42.321]


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(oriented(BOX), id="raw"),
        pytest.param(np.ascontiguousarray(oriented(BOX).transpose(0, 2, 1)), id="channels-last"),
        pytest.param(ROW, id="end-to-end"),
        pytest.param(ROW[:, :64], id="suppressed-in-the-graph"),
    ],
)
def test_every_head_gives_the_same(raw: np.ndarray) -> None:
    found = task_decoder(TASK, 15)([raw], [SQUARE])[0]
    assert [(c, s) for c, s, _ in plain(found)] == [(3, 0.8)]
    np.testing.assert_allclose(found.boxes, [AROUND], atol=1e-2)
    np.testing.assert_allclose(found.rotated, [[320, 320, 100, 40, TURNED]], rtol=1e-6)


def test_rotated_boxes_are_suppressed_by_their_shapes() -> None:
    # Around all three lies the same box; the first two cross, the third is nearly the first.
    raw = oriented(
        (320, 320, 100, 20, 3, 0.9, math.pi / 4),
        (320, 320, 100, 20, 3, 0.8, 3 * math.pi / 4),
        (321, 320, 100, 20, 3, 0.7, math.pi / 4),
    )
    found = task_decoder(TASK, 15)([raw], [SQUARE])[0]
    np.testing.assert_allclose(found.scores, [0.9, 0.8])


def test_at_most_max_det() -> None:
    raw = oriented(*[(40 * i + 20, 300, 30, 10, 0, 0.9 - i / 100, 0.3) for i in range(10)])
    assert len(task_decoder(TASK, 15, max_det=4)([raw], [SQUARE])[0]) == 4


def test_rotated_boxes_are_kept_whole_their_boxes_are_clipped() -> None:
    found = task_decoder(TASK, 15)([oriented((5, 320, 100, 40, 3, 0.8, TURNED))], [SQUARE])[0]
    assert found.rotated is not None
    np.testing.assert_allclose(found.rotated[0, :4], [5, 320, 100, 40])
    np.testing.assert_allclose(found.boxes[0], [0, AROUND[1], 58.301, AROUND[3]], atol=1e-2)


def test_what_lies_outside_the_image_is_dropped() -> None:
    frame = FrameGeometry((320, 640), (320, 640), (640, 640), (160, 0))
    raw = oriented((320, 40, 100, 40, 3, 0.9, TURNED), BOX)
    found = task_decoder(TASK, 15)([raw], [frame])[0]
    assert found.rotated is not None
    np.testing.assert_allclose(found.scores, [0.8])
    np.testing.assert_allclose(found.rotated[:, :2], [[320, 160]])


@pytest.mark.parametrize("raw", [oriented(BOX, BOX), np.repeat(ROW[:, :1], 2, axis=1)], ids=["raw", "rows"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_has_no_angle_is_no_box(raw: np.ndarray, bad: float) -> None:
    raw = raw.copy()
    angles = raw[0, -1] if raw.shape[2] == 8400 else raw[0, :, -1]
    angles[0] = bad
    found = task_decoder(TASK, 15)([raw], [SQUARE])[0]
    assert found.rotated is not None
    assert len(found) == 1
    np.testing.assert_allclose(found.rotated[0, 4], TURNED, rtol=1e-6)


def test_angles_are_those_of_the_head() -> None:
    found = task_decoder(TASK, 15)([oriented((320, 320, 40, 100, 3, 0.8, -1.74))], [SQUARE])[0]
    np.testing.assert_allclose(found.rotated, [[320, 320, 40, 100, -1.74]], rtol=1e-6)


def test_nothing_found() -> None:
    found = task_decoder(TASK, 15)([oriented()], [SQUARE])[0]
    assert found.rotated is not None
    assert (len(found), found.rotated.shape) == (0, (0, 5))


def test_b45_all_anchors_of_a_large_head_count() -> None:
    rng = np.random.default_rng(0)
    raw = np.full((1, 20, 33600), 0.01, np.float32)
    raw[0, :2], raw[0, 2:4], raw[0, 19] = rng.random((2, 33600)) * 1280, 20, rng.random(33600) * 3
    raw[0, 4 + 7, 33000] = 0.5
    frame = FrameGeometry((1280, 1280), (1280, 1280), (1280, 1280))
    found = task_decoder(TASK, 15, score_threshold=0.0)([raw], [frame])[0]
    assert len(found) == 300
    assert (found.class_ids[0], found.scores[0]) == (7, 0.5)


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        pytest.param([head(15, 8400)], r"20 or 21 channels .* 1 behind them .* got 19", id="no-angle"),
        pytest.param([np.zeros((1, 9, 4)), np.zeros((1, 9, 15))], "the angle, got 0", id="boxes-and-scores"),
        pytest.param([np.zeros((1, 9, 4)), np.zeros((1, 9)), np.zeros((1, 9))], "the angle, got 0", id="chosen"),
    ],
)
def test_what_has_no_angles_is_refused(outputs: list[np.ndarray], message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        task_decoder(TASK, 15)(outputs, [SQUARE])


@pytest.mark.parametrize("classes", [1, 2])
def test_rows_of_few_classes_are_told_from_a_raw_head(classes: int) -> None:
    """[1, 300, 7] could be 4 + 2 + 1 or 5 + 1 + 1 channels too; a centre may lie right of its own width."""
    rows = np.zeros((1, 300, 7), np.float32)
    rows[0, 0] = [320, 320, 100, 40, 0.8, classes - 1, TURNED]
    found = task_decoder(TASK, classes)([rows], [SQUARE])[0]
    assert [(c, s) for c, s, _ in plain(found)] == [(classes - 1, 0.8)]
    np.testing.assert_allclose(found.rotated, [[320, 320, 100, 40, TURNED]], rtol=1e-6)


def test_clipping_before_suppression_is_for_upright_boxes() -> None:
    raw = oriented(BOX)
    plainly, clipped = (task_decoder(TASK, 15, clip_before_nms=said)([raw], [SQUARE])[0] for said in (False, True))
    np.testing.assert_array_equal(plainly.rotated, clipped.rotated)
