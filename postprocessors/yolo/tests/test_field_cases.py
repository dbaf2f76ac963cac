"""What goes wrong for people who deploy detectors, and the right answer; the numbers are those of the cases."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import numpy as np
import pytest

from postprocessors.contract import DecodeError, DecodeValueError
from postprocessors.geometry import FrameGeometry
from postprocessors.yolo.tests.heads import SQUARE, corner_row, decoder, head, plain

WIDE = FrameGeometry((720, 1280), (640, 640), (640, 640))


def rows(count: int, *found: list[float], batch: int = 1) -> np.ndarray:
    """Return float32 [batch, count, columns] whose first rows are `found` in every image."""
    raw = np.zeros((batch, count, len(found[0])), np.float32)
    raw[:, : len(found)] = found
    return raw


def last(num_classes: int, anchors: int, *anchor_rows: Any) -> np.ndarray:
    """Return `head` with the channels last, a copy."""
    return np.ascontiguousarray(head(num_classes, anchors, *anchor_rows).transpose(0, 2, 1))


@pytest.mark.parametrize("channels_first", [True, False])
def test_b01_channels_first_or_last(channels_first: bool) -> None:
    raw = head(80, 8400, *[(0, 0, 0, 0, 0, 0)] * 17, (320, 320, 64, 128, 2, 0.9))
    found = decoder(80)([raw if channels_first else np.ascontiguousarray(raw.transpose(0, 2, 1))], [SQUARE])[0]
    assert plain(found) == [(2, 0.9, [288.0, 256.0, 352.0, 384.0])]


def test_b02_a_square_head_is_channels_first_unless_the_manifest_says_last() -> None:
    frame = FrameGeometry((64, 64), (64, 64), (64, 64))
    expected = [(5, 0.8, [24.0, 24.0, 40.0, 40.0])]
    raw = head(80, 84, (32, 32, 16, 16, 5, 0.8))
    assert plain(decoder(80)([raw], [frame])[0]) == expected
    assert plain(decoder(80, channels_first=False)([raw.transpose(0, 2, 1)], [frame])[0]) == expected


@pytest.mark.parametrize(
    ("num_classes", "expected"), [pytest.param(3, (1, 0.72), id="objectness"), pytest.param(4, (0, 0.9), id="none")]
)
def test_b04_the_number_of_classes_says_whether_there_is_objectness(
    num_classes: int, expected: tuple[int, float]
) -> None:
    raw = rows(25200, [100, 100, 20, 40, 0.9, 0.1, 0.8, 0.2])
    assert [found[:2] for found in plain(decoder(num_classes)([raw], [SQUARE])[0])] == [expected]


@pytest.mark.parametrize(
    ("num_classes", "anchors", "expected"),
    [
        pytest.param(2, 8400, [(0, 0.9, [0.0, 0.0, 250.0, 400.0])], id="a-two-classes"),
        pytest.param(1, 25200, [], id="b-objectness"),
        pytest.param(80, 300, [(0, 0.9, [100.0, 200.0, 300.0, 400.0])], id="c-end-to-end"),
        pytest.param(2, 300, [(0, 0.9, [100.0, 200.0, 300.0, 400.0])], id="d-two-classes-end-to-end"),
        pytest.param(1, 300, [(0, 0.9, [100.0, 200.0, 300.0, 400.0])], id="one-class-end-to-end"),
    ],
)
def test_b05_six_columns_mean_three_things(num_classes: int, anchors: int, expected: list[Any]) -> None:
    raw = rows(anchors, [100, 200, 300, 400, 0.9, 0.0])
    assert plain(decoder(num_classes)([raw], [SQUARE])[0]) == expected


def test_b05_rows_that_do_not_fall_are_no_end_to_end_rows() -> None:
    raw = rows(300, [100, 200, 30, 40, 0.5, 0.0], [300, 200, 30, 40, 0.9, 0.0])
    assert [found[2] for found in plain(decoder(2)([raw], [SQUARE])[0])] == [[285, 180, 315, 220], [85, 180, 115, 220]]


@pytest.mark.parametrize("num_classes", [1, 2])
@pytest.mark.parametrize(
    ("row", "filling"),
    [
        pytest.param([np.nan, 0, 9, 9, 0.5, 0], 0, id="a row without a box"),
        pytest.param([0, 0, 9, np.inf, 0.5, 0], 0, id="an infinite row"),
        pytest.param([0, 0, 9, 9, np.nan, 0], 0, id="a row without a score"),
        pytest.param([50, 50, 40, 40, 0.05, 0], 0, id="a weak row turned inside out"),
        pytest.param([0, 0, 0, 0, 0, 0], -1, id="padding of -1"),
        pytest.param([0, 0, 0, 0, 0, -1], 0, id="padding of class -1"),
    ],
)
def test_b72_one_odd_row_does_not_change_how_the_others_are_read(
    num_classes: int, row: list[float], filling: float
) -> None:
    raw = np.full((1, 300, 6), filling, np.float32)
    raw[0, :3] = [100, 200, 300, 400, 1.0005, 0], [10, 20, 30, 40, 0.9, num_classes - 1], row
    expected = [(0, 1.0, [100, 200, 300, 400]), (num_classes - 1, 0.9, [10, 20, 30, 40])]
    assert plain(decoder(num_classes)([raw], [SQUARE])[0]) == expected


def test_b05_every_batch_is_looked_at_where_the_shape_does_not_decide() -> None:
    decode = decoder(2)
    for _ in range(2):
        found = decode([rows(300, [100, 200, 300, 400, 0.9, 0.0])], [SQUARE])[0]
        assert plain(found)[0][2] == [100.0, 200.0, 300.0, 400.0]


def test_b05_the_manifest_overrides() -> None:
    raw = rows(300, [100, 200, 300, 400, 0.9, 0.0])
    assert plain(decoder(2, end_to_end=False)([raw], [SQUARE])[0])[0][2] == [0.0, 0.0, 250.0, 400.0]
    raw = rows(8400, [100, 200, 300, 400, 0.9, 0.0])
    assert plain(decoder(2, end_to_end=True)([raw], [SQUARE])[0])[0][2] == [100.0, 200.0, 300.0, 400.0]


@pytest.mark.parametrize("shape", [(1, 84, 8400), (1, 8400, 84)])
def test_b07_stock_weights_are_refused_not_cut(shape: tuple[int, ...]) -> None:
    with pytest.raises(DecodeError, match=r"expected 7 or 8 channels for num_classes=3.* got 84"):
        decoder(3)([np.zeros(shape, np.float32)], [SQUARE])


def test_b08_raw_maps_alone_are_refused() -> None:
    maps = [np.zeros((1, 3, side, side, 85), np.float32) for side in (80, 40, 20)]
    with pytest.raises(DecodeError, match=r"raw maps .* export the model with its decode"):
        decoder(80)(maps, [SQUARE])


@pytest.mark.parametrize("place", range(4))
def test_b08_raw_maps_beside_the_head_are_left_alone(place: int) -> None:
    outputs = [np.full((1, 3, *side, 8), 9, np.float32) for side in ((64, 104), (32, 52), (16, 26))]
    outputs.insert(place, rows(26208, [100, 100, 20, 40, 0.9, 0.1, 0.8, 0.2]))
    frame = FrameGeometry((512, 832), (512, 832), (512, 832))
    assert plain(decoder(3)(outputs, [frame])[0]) == [(1, 0.72, [90.0, 80.0, 110.0, 120.0])]


def test_b09_one_class() -> None:
    found = decoder(1, ["crack"])([head(1, 8400, *[(10 * i, 50, 8, 8, 0, 0.3) for i in range(1, 60)])], [SQUARE])[0]
    assert len(found) == 59
    assert set(found.class_ids.tolist()) == {0}
    assert set(found.labels) == {"crack"}


def test_b10_a_head_without_its_grid_gives_what_it_holds() -> None:
    raw = rows(8400, [-0.02, 1.06, 2.82, 1.37, 3e-6, 0.22])
    assert len(decoder(1)([raw], [SQUARE])[0]) == 0
    raw[0, 5] = -0.02, 1.06, 2.82, 1.37, 0.9, 0.9
    (found,) = plain(decoder(1)([raw], [SQUARE])[0])
    assert found[:2] == (0, 0.81)


def test_b12_outputs_without_a_batch_axis_are_refused() -> None:
    outputs = [np.zeros((10647, 80), np.float32), np.zeros((10647, 4), np.float32)]
    with pytest.raises(DecodeError, match=r"rank 3, got \[10647, 80\], \[10647, 4\]"):
        decoder(80)(outputs, [SQUARE])


def test_b13_logits_are_refused_not_squashed() -> None:
    with pytest.raises(DecodeValueError, match=r"class scores reach 7\.28, expected 0\.\.1"):
        decoder(80)([head(80, 8400, (320, 320, 64, 64, 3, 7.28))], [SQUARE])


def test_b14_one_class_is_multiplied_by_its_objectness_too() -> None:
    found = decoder(1)([rows(25200, [320, 320, 100, 100, 0.9, 0.5])], [SQUARE])[0]
    assert plain(found) == [(0, 0.45, [270.0, 270.0, 370.0, 370.0])]


def test_b19_end_to_end_rows_are_corners_score_class() -> None:
    found = decoder(80)([rows(300, [100, 100, 200, 300, 0.9, 7.0])], [WIDE])[0]
    assert plain(found) == [(7, 0.9, [200.0, 112.5, 400.0, 337.5])]


def test_b20_both_exports_of_one_model_give_the_same() -> None:
    raw = head(80, 8400, corner_row(100, 100, 200, 300, 7, 0.9))
    chosen = rows(300, [100, 100, 200, 300, 0.9, 7.0])
    assert plain(decoder(80)([raw], [WIDE])[0]) == plain(decoder(80)([chosen], [WIDE])[0]) != []


def test_b23_corners_outside_are_clipped() -> None:
    found = decoder(80)([rows(300, [-3.2, -1, 50, 60, 0.8, 0], [600, 600, 660, 655, 0.8, 0])], [SQUARE])[0]
    assert [box for _, _, box in plain(found)] == [[0.0, 0.0, 50.0, 60.0], [600.0, 600.0, 640.0, 640.0]]


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(rows(300, [0.5, 0.5, 0.75, 0.9, 0.9, 7]), id="rows"),
        pytest.param(np.random.default_rng(0).random((1, 300, 84), np.float32), id="scores"),
    ],
)
def test_b24_fractions_are_no_pixels(raw: np.ndarray) -> None:
    with pytest.raises(DecodeValueError, match="between 0 and 1, expected pixels"):
        decoder(80)([raw], [SQUARE])


def test_b24_fractions_that_are_stated_are_scaled() -> None:
    frame = FrameGeometry((1080, 1920), (640, 640), (640, 640))
    decode = decoder(80, boxes_normalized=True, box_format="cxcywh")
    found = decode([rows(300, [0.5, 0.5, 0.25, 0.5, 0.9, 7])], [frame])[0]
    assert plain(found) == [(7, 0.9, [720.0, 270.0, 1200.0, 810.0])]


def test_b26_rows_with_an_image_index() -> None:
    raw = np.array([[0, 100, 100, 200, 200, 5, 0.9], [1, 0, 0, 50, 50, 3, 0.8]], np.float32)
    first, second = decoder(80)([raw], [SQUARE, SQUARE])
    assert plain(first) == [(5, 0.9, [100.0, 100.0, 200.0, 200.0])]
    assert plain(second) == [(3, 0.8, [0.0, 0.0, 50.0, 50.0])]
    assert [len(found) for found in decoder(80)([np.zeros((0, 7), np.float32)], [SQUARE, SQUARE])] == [0, 0]
    with pytest.raises(DecodeError, match="image 1"):
        decoder(80)([raw], [SQUARE])


NAMES = ("num_dets", "det_boxes", "det_scores", "det_classes")


def efficient_nms(order: tuple[int, ...] = (0, 1, 2, 3), dtype: Any = np.int32) -> list[np.ndarray]:
    boxes = np.tile(np.array([10, 10, 50, 50], np.float32), (1, 100, 1))
    boxes[0, :2] = [[100, 100, 200, 300], [300, 300, 400, 400]]
    scores, classes = np.full((1, 100), 0.99, np.float32), np.full((1, 100), 3, dtype)
    scores[0, :2], classes[0, :2] = (0.9, 0.8), (7, 5)
    outputs = [np.array([[2]], dtype), boxes, scores, classes]
    return [outputs[index] for index in order]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)])
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_b27_only_the_counted_rows(order: tuple[int, ...], named: bool, dtype: Any) -> None:
    names = [NAMES[index] if named else "" for index in order]
    found = decoder(80, names=names)(efficient_nms(order, dtype), [SQUARE])[0]
    assert plain(found) == [(7, 0.9, [100.0, 100.0, 200.0, 300.0]), (5, 0.8, [300.0, 300.0, 400.0, 400.0])]


def test_b29_labels_boxes_scores() -> None:
    boxes = rows(300, [100, 100, 200, 300])
    labels, scores = np.zeros((1, 300), np.int64), np.zeros((1, 300), np.float32)
    labels[0, 0], scores[0, 0] = 7, 0.9
    found = decoder(80, names=("labels", "boxes", "scores"))([labels, boxes, scores], [SQUARE])[0]
    assert plain(found) == [(7, 0.9, [100.0, 100.0, 200.0, 300.0])]


def test_b30_every_image_of_a_batch_has_its_own_rows() -> None:
    one = rows(300, [100, 100, 200, 300, 0.9, 7.0])
    alone = plain(decoder(80)([one], [SQUARE])[0])
    found = decoder(80)([np.concatenate([one] * 3)], [SQUARE] * 3)
    assert [plain(image) for image in found] == [alone] * 3


@pytest.mark.parametrize("prototypes_first", [True, False])
@pytest.mark.parametrize("channels_first", [True, False])
def test_b31_mask_coefficients_are_no_scores(prototypes_first: bool, channels_first: bool) -> None:
    raw = np.concatenate([head(80, 8400, (320, 320, 64, 64, 3, 0.8)), np.zeros((1, 32, 8400), np.float32)], axis=1)
    raw[0, 84 + 5, 0] = 1.7
    raw = raw if channels_first else np.ascontiguousarray(raw.transpose(0, 2, 1))
    outputs = [raw, np.zeros((1, 32, 160, 160), np.float32)]
    found = decoder(80)(outputs[::-1] if prototypes_first else outputs, [SQUARE])[0]
    assert plain(found) == [(3, 0.8, [288.0, 288.0, 352.0, 352.0])]


@pytest.mark.parametrize("channels_first", [True, False])
def test_b31_keypoints_are_no_scores(channels_first: bool) -> None:
    raw = np.concatenate([head(1, 8400, (320, 320, 64, 64, 0, 0.6)), np.full((1, 51, 8400), 412, np.float32)], axis=1)
    found = decoder(1)([raw if channels_first else np.ascontiguousarray(raw.transpose(0, 2, 1))], [SQUARE])[0]
    assert plain(found) == [(0, 0.6, [288.0, 288.0, 352.0, 352.0])]


def test_b31_extra_channels_that_nothing_explains_are_refused() -> None:
    with pytest.raises(DecodeError, match=r"expected 84 or 85 channels.* got 116"):
        decoder(80)([np.zeros((1, 116, 8400), np.float32)], [SQUARE])


@pytest.mark.parametrize("threshold", [0.0, 0.001])
@pytest.mark.parametrize("multi_label", [True, False])
def test_b45_low_thresholds_stay_small(threshold: float, multi_label: bool) -> None:
    raw = np.full((1, 84, 33600), 0.01, np.float32)
    raw[0, :2] = np.random.default_rng(0).random((2, 33600), np.float32) * 1280
    raw[0, 2:4] = 20
    raw[0, 4 + 7, 33000] = 0.5
    frame = FrameGeometry((1280, 1280), (1280, 1280), (1280, 1280))
    decode = decoder(80, score_threshold=threshold, multi_label=multi_label)
    tracemalloc.start()
    found = decode([raw], [frame])[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Of 2,688,000 scores that all count; their places alone would take 20 MiB.
    assert peak < 16 * 2**20
    assert len(found) == 300
    assert (found.class_ids[0], found.scores[0]) == (7, 0.5)
    assert (np.diff(found.scores) <= 0).all()


def test_b46_corners_are_not_taken_for_sizes() -> None:
    raw = head(1, 20, corner_row(500, 500, 600, 600, 0, 0.9), corner_row(610, 500, 710, 600, 0, 0.8))
    assert len(decoder(1)([raw], [FrameGeometry((800, 800), (800, 800), (800, 800))])[0]) == 2


@pytest.mark.parametrize(("class_id", "kept"), [(1, 2), (0, 1)])
def test_b47_suppression_is_by_class(class_id: int, kept: int) -> None:
    raw = head(2, 20, corner_row(10, 10, 60, 60, 0, 0.9), corner_row(10, 10, 60, 60, class_id, 0.8))
    assert len(decoder(2)([raw], [SQUARE])[0]) == kept


@pytest.mark.parametrize("size", [(0, 50), (-10, 20)])
def test_b49_boxes_without_area(size: tuple[float, float]) -> None:
    flat = [(100, 100, *size, 0, 0.9), (100, 100, *size, 0, 0.8)]
    found = decoder(1)([head(1, 9, *flat, (300, 300, 20, 20, 0, 0.7))], [SQUARE])[0]
    assert plain(found) == [(0, 0.7, [290.0, 290.0, 310.0, 310.0])]


@pytest.mark.parametrize(
    "outputs",
    [
        pytest.param([head(80, 8400, (320, 320, 64, 64, 3, 0.8))], id="one-candidate"),
        pytest.param([head(80, 1, (320, 320, 64, 64, 3, 0.8))], id="one-anchor"),
        pytest.param([rows(1, [288, 288, 352, 352, 0.8, 3])], id="one-row"),
        pytest.param(
            [
                np.ones((1, 1)),
                np.array([[[288, 288, 352, 352.0]]]),
                np.array([[0.8]], np.float32),
                np.array([[3]], np.float32),
            ],
            id="one-row-and-its-count",
        ),
    ],
)
def test_b50_one_is_a_list_of_one(outputs: list[np.ndarray]) -> None:
    assert plain(decoder(80)(outputs, [SQUARE])[0]) == [(3, 0.8, [288.0, 288.0, 352.0, 352.0])]


@pytest.mark.parametrize("source", [(1080, 810), (720, 1280)])
def test_b56_every_picture_is_scaled_by_its_own_sides(source: tuple[int, int]) -> None:
    frame = FrameGeometry(source, (640, 640), (640, 640))
    found = decoder(1)([head(1, 9, corner_row(160, 320, 480, 640, 0, 0.9))], [frame])[0]
    height, width = source
    assert plain(found) == [(0, 0.9, [width / 4, height / 2, width * 3 / 4, float(height)])]


ANCHORS_OF_B72 = {
    "scores": (slice(4, 6), [np.nan, 0.9], [(1, 0.9)]),
    "box": (0, np.nan, []),
    "infinite-box": (2, np.inf, []),
    "all": (slice(None), np.nan, []),
}


@pytest.mark.parametrize("case", ANCHORS_OF_B72)
@pytest.mark.parametrize("objectness", [False, True])
def test_b72_what_is_no_number_never_leaves_and_disturbs_nothing(case: str, objectness: bool) -> None:
    raw = head(2, 9, (100, 100, 50, 50, 1, 0.9), (300, 300, 50, 50, 0, 0.7))
    place, value, expected = ANCHORS_OF_B72[case]
    raw[0, place, 0] = value
    if objectness:
        raw = np.insert(raw, 4, 1.0, axis=1)
    found = decoder(2)([raw], [SQUARE])[0]
    assert [row[:2] for row in plain(found)] == [*expected, (0, 0.7)]
    json.loads(found.to_json(), parse_constant=pytest.fail)


def test_b72_an_all_nan_head_is_an_empty_list() -> None:
    assert len(decoder(2)([np.full((1, 6, 8400), np.nan, np.float32)], [SQUARE])[0]) == 0
    assert len(decoder(80)([np.full((1, 300, 6), np.nan, np.float32)], [SQUARE])[0]) == 0


@pytest.mark.parametrize("chosen", [False, True])
def test_b79_every_image_is_decoded_and_scaled_on_its_own(chosen: bool) -> None:
    if chosen:
        raw = np.concatenate([np.zeros((1, 300, 6), np.float32), rows(300, [288, 288, 352, 352, 0.9, 0])])
    else:
        raw = np.concatenate([head(80, 8400), head(80, 8400, (320, 320, 64, 64, 0, 0.9))])
    small = FrameGeometry((320, 320), (640, 640), (640, 640))
    first, second = decoder(80)([raw], [SQUARE, small])
    assert len(first) == 0
    assert plain(second) == [(0, 0.9, [144.0, 144.0, 176.0, 176.0])]
