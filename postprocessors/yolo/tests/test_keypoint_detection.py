"""Pose heads of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from postprocessors.contract import DecodeError
from postprocessors.geometry import FrameGeometry
from postprocessors.yolo.tests.heads import SQUARE, head, plain
from postprocessors.yolo.tests.task_heads import task_decoder

TASK = "keypoint_detection"
WIDE = FrameGeometry((720, 1280), (360, 640), (640, 640), (140, 0))


def pose(points: int = 17, values: int = 3, classes: int = 1, anchors: int = 8400) -> np.ndarray:
    """Return a raw head with one object: point i lies at (300 + i, 310 + i), visibility 0.5 + i / 100."""
    channels = np.zeros((1, points * values, anchors), np.float32)
    for point in range(points):
        channels[0, point * values : (point + 1) * values, 0] = [300 + point, 310 + point, 0.5 + point / 100][:values]
    return np.concatenate([head(classes, anchors, (320, 320, 64, 64, 0, 0.6)), channels], axis=1)


ROW = np.zeros((1, 300, 57), np.float32)
ROW[0, 0] = [288, 288, 352, 352, 0.6, 0, *pose()[0, 5:, 0]]
EXPECTED = np.array([[300 + i, 310 + i, 0.5 + i / 100] for i in range(17)])


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(pose(), id="raw"),
        pytest.param(np.ascontiguousarray(pose().transpose(0, 2, 1)), id="channels-last"),
        pytest.param(ROW, id="end-to-end"),
        pytest.param(ROW[:, :64], id="suppressed-in-the-graph"),
    ],
)
@pytest.mark.parametrize("stated", [None, [17, 3]])
def test_every_head_gives_the_same(raw: np.ndarray, stated: list[int] | None) -> None:
    found = task_decoder(TASK, 1, keypoints=stated)([raw], [SQUARE])[0]
    assert plain(found) == [(0, 0.6, [288.0, 288.0, 352.0, 352.0])]
    np.testing.assert_allclose(found.keypoints, [EXPECTED], atol=1e-4)


def test_b31_a_keypoint_is_no_score() -> None:
    raw = pose()
    raw[0, 5, 0] = 412
    found = task_decoder(TASK, 1)([raw], [SQUARE])[0]
    assert plain(found) == [(0, 0.6, [288.0, 288.0, 352.0, 352.0])]
    assert found.keypoints is not None
    assert found.keypoints[0, 0].tolist() == [412, 310, 0.5]


def test_points_come_back_to_the_source() -> None:
    found = task_decoder(TASK, 1)([pose()], [WIDE])[0]
    assert found.keypoints is not None
    np.testing.assert_allclose(found.keypoints[0, 0], [600, 340, 0.5])
    np.testing.assert_allclose(found.keypoints[0, 16], [632, 372, 0.66], rtol=1e-6)


def test_points_outside_are_put_on_the_edge() -> None:
    raw = pose()
    raw[0, 5:11, 0] = -20, 100, 0.9, 700, 520, 0.8
    found = task_decoder(TASK, 1)([raw], [WIDE])[0]
    assert found.keypoints is not None
    np.testing.assert_allclose(found.keypoints[0, :2], [[0, 0, 0.9], [1280, 720, 0.8]])


def test_points_without_visibility_are_visible() -> None:
    found = task_decoder(TASK, 1, keypoints=[12, 2])([pose(12, 2)], [SQUARE])[0]
    np.testing.assert_allclose(found.keypoints, [[[300 + i, 310 + i, 1] for i in range(12)]])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("channel", [0, 1])
def test_a_point_that_is_none_is_not_labelled(bad: float, channel: int) -> None:
    raw = pose()
    raw[0, 5 + channel, 0] = bad
    found = task_decoder(TASK, 1)([raw], [SQUARE])[0]
    assert found.keypoints is not None
    np.testing.assert_allclose(found.keypoints[0, :2], [[0, 0, 0], EXPECTED[1]])


def test_a_point_that_is_none_is_not_labelled_without_visibility_either() -> None:
    raw = pose(12, 2)
    raw[0, 5, 0] = np.nan
    found = task_decoder(TASK, 1, keypoints=[12, 2])([raw], [SQUARE])[0]
    assert found.keypoints is not None
    assert found.keypoints[0, :2].tolist() == [[0, 0, 0], [301, 311, 1]]


def test_visibility_that_is_none_is_none() -> None:
    raw = pose()
    raw[0, 7, 0] = np.nan
    found = task_decoder(TASK, 1)([raw], [SQUARE])[0]
    assert found.keypoints is not None
    assert found.keypoints[0, 0].tolist() == [0, 0, 0]


@pytest.mark.parametrize(("value", "expected"), [(7.2, 1), (1.0005, 1), (-3.1, 0)])
def test_visibility_is_0_to_1(value: float, expected: float) -> None:
    raw = pose()
    raw[0, 7, 0] = value
    found = task_decoder(TASK, 1)([raw], [SQUARE])[0]
    assert found.keypoints is not None
    assert found.keypoints[0, 0].tolist() == [300, 310, expected]


@pytest.mark.parametrize(
    ("points", "classes", "channels_last"), [(21, 1, False), (21, 1, True), (5, 3, False), (13, 80, True)]
)
def test_the_number_of_points_is_what_the_channels_say(points: int, classes: int, channels_last: bool) -> None:
    raw = pose(points, 3, classes)
    raw = np.ascontiguousarray(raw.transpose(0, 2, 1)) if channels_last else raw
    found = task_decoder(TASK, classes)([raw], [SQUARE])[0]
    assert found.keypoints is not None
    assert found.keypoints.shape == (1, points, 3)
    np.testing.assert_allclose(found.keypoints[0, -1, :2], [299 + points, 309 + points])


def test_rows_say_it_too() -> None:
    row = np.zeros((1, 300, 6 + 63), np.float32)
    row[0, 0] = [288, 288, 352, 352, 0.6, 0, *pose(21)[0, 5:, 0]]
    found = task_decoder(TASK, 1)([row], [SQUARE])[0]
    assert found.keypoints is not None
    assert found.keypoints.shape == (1, 21, 3)


@pytest.mark.parametrize(
    ("raw", "settings", "message"),
    [
        pytest.param(pose(12, 2), {}, r"got 24; set detection\.keypoints", id="triples-or-pairs"),
        pytest.param(pose(5, 2), {}, r"got 10; set detection\.keypoints", id="no-triples"),
        pytest.param(pose(), {"keypoints": [21, 3]}, r"68 or 69 channels .* 63 behind them .* got 56", id="stated"),
        pytest.param(head(1, 8400), {}, r"56 or 57 channels .* 51 behind them .* got 5", id="no-points"),
        pytest.param(
            np.zeros((1, 3, 80, 80, 56), np.float32), {}, "export the model with its decode", id="without-its-decode"
        ),
    ],
)
def test_what_cannot_be_explained_is_refused(raw: np.ndarray, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        task_decoder(TASK, 1, **settings)([raw], [SQUARE])


def test_a_point_of_four_numbers_is_refused() -> None:
    with pytest.raises(DecodeError, match=r"detection\.keypoints: expected 2 or 3 numbers per point .* got 4"):
        task_decoder(TASK, 1, keypoints=[17, 4])


def test_boxes_without_points_are_refused() -> None:
    with pytest.raises(DecodeError, match="expected 3 channels for every keypoint behind boxes and scores, got 0"):
        task_decoder(TASK, 1)([np.zeros((1, 9, 4), np.float32), np.zeros((1, 9, 1), np.float32)], [SQUARE])


def test_nothing_found() -> None:
    found = task_decoder(TASK, 1)([np.zeros((1, 56, 8400), np.float32)], [SQUARE])[0]
    assert found.keypoints is not None
    assert (len(found), found.keypoints.shape) == (0, (0, 17, 3))
