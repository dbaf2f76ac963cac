"""Where images go in the network's input, and the way back, by each vendor's own formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postprocessors.geometry import FrameGeometry
from runtimes.preprocessors.placement import Placement, Rules, place, rules_of

Size = tuple[int, int]
FLOOR = Rules(letterbox="top_left", resize_rounding="floor")
NAS = Rules(letterbox_margin=4, box_gain="unrounded_gain")
CROP = Rules(crop=True)


def boxes_to_source(placement: Placement, *boxes: list[float]) -> list[list[float]]:
    return FrameGeometry(*placement).to_source(np.array(boxes, np.float32)).tolist()


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
def test_b52_letterbox(source: Size, network: Size, expected: Any) -> None:
    assert place(source, network, preserve_aspect=True) == Placement(source, expected[0], network, expected[1])


def test_b52_the_way_back_undoes_the_way_there() -> None:
    letterboxed = place((720, 1280), (640, 640), preserve_aspect=True)
    assert boxes_to_source(letterboxed, [0, 140, 640, 500]) == [[0, 0, 1280, 720]]
    stretched = place((720, 1280), (640, 640), preserve_aspect=False)
    assert boxes_to_source(stretched, [0, 0, 640, 640]) == [[0, 0, 1280, 720]]


def test_b55_each_axis_has_its_own_scale() -> None:
    stretched = place((720, 1280), (384, 640), preserve_aspect=False)
    # The column cx 320, cy 192, w 640, h 384.
    assert boxes_to_source(stretched, [0, 0, 640, 384]) == [[0, 0, 1280, 720]]
    assert FrameGeometry(*stretched).source_per_pixel == (1.875, 2.0)


def test_stretch() -> None:
    assert place((3, 5), (8, 4), preserve_aspect=False) == Placement((3, 5), (8, 4), (8, 4), (0, 0))


@pytest.mark.parametrize(
    ("source", "network", "rules", "resized", "offset"),
    [
        # int(300 * 320 / 451) = int(212.86)
        pytest.param((300, 451), (320, 320), FLOOR, (212, 320), (0, 0), id="top-left-floor"),
        pytest.param((1080, 1920), (640, 640), FLOOR, (360, 640), (0, 0), id="top-left-even"),
        pytest.param((1, 4000), (640, 640), FLOOR, (1, 640), (0, 0), id="floor-keeps-a-row"),
        pytest.param((300, 451), (640, 640), NAS, (423, 636), (108, 2), id="nas-wide"),
        pytest.param((451, 300), (640, 640), NAS, (636, 423), (2, 108), id="nas-tall"),
        pytest.param((300, 451), (320, 320), Rules(resize_rounding="floor"), (212, 320), (54, 0), id="centre-floor"),
        pytest.param((300, 451), (224, 224), CROP, (224, 336), (0, -56), id="crop-wide"),
        pytest.param((451, 300), (224, 224), CROP, (336, 224), (-56, 0), id="crop-tall"),
        # int(round(0.5)) is 0, int(round(1.5)) is 2, as torchvision's CenterCrop has it.
        pytest.param((224, 225), (224, 224), CROP, (224, 225), (0, 0), id="crop-half"),
        pytest.param((224, 227), (224, 224), CROP, (224, 227), (0, -2), id="crop-one-and-a-half"),
        pytest.param((300, 300), (224, 224), CROP, (224, 224), (0, 0), id="crop-nothing"),
        pytest.param((300, 451), (224, 320), CROP, (224, 320), (0, 0), id="crop-into-no-square-stretches"),
    ],
)
def test_vendors_placements(source: Size, network: Size, rules: Rules, resized: Size, offset: Size) -> None:
    placement = place(source, network, not rules.crop, rules)
    assert (placement.resized, placement.offset) == (resized, offset)


@pytest.mark.parametrize(
    ("source", "network", "difference"),
    [
        # As measured between two releases of Ultralytics.
        pytest.param((300, 451), (320, 320), 0.2, id="chelsea"),
        pytest.param((1755, 1240), (1024, 1024), 0.84, id="page"),
        pytest.param((33, 1000), (320, 320), 3.1, id="a-narrow-strip"),
    ],
)
def test_old_and_new_ultralytics_differ_by_what_was_measured(source: Size, network: Size, difference: float) -> None:
    new = place(source, network, True)
    old = FrameGeometry(*place(source, network, True, Rules(box_gain="unrounded")))
    # The image's corners, which the new way takes to the corners.
    (top, left), (height, width) = new.offset, new.resized
    corners = old.points_to_source(np.array([[left, top], [left + width, top + height]], np.float32))
    assert np.abs(corners - [[0, 0], [source[1], source[0]]]).max() == pytest.approx(difference, abs=0.06)


@pytest.mark.parametrize(
    ("rules", "gain", "pad"),
    [
        pytest.param(Rules(), None, None, id="exact"),
        pytest.param(Rules(box_gain="unrounded"), 320 / 451, (round((320 - 300 * 320 / 451) / 2 - 0.1), 0), id="8.3"),
        pytest.param(Rules(box_gain="unrounded_pad"), 320 / 451, ((320 - 300 * 320 / 451) / 2, 0), id="yolov5"),
        pytest.param(Rules(box_gain="unrounded_gain"), 320 / 451, (53, 0), id="as-placed"),
        pytest.param(FLOOR._replace(box_gain="unrounded"), 320 / 451, (0, 0), id="yolox"),
    ],
)
def test_gain_and_pad(rules: Rules, gain: float | None, pad: tuple[float, float] | None) -> None:
    placement = place((300, 451), (320, 320), True, rules)
    assert placement.gain == (gain if gain is None else (gain, gain))
    assert placement.pad == (pad if pad is None else pytest.approx(pad, abs=1e-9))


def test_yolo_nas_takes_the_padding_as_it_was() -> None:
    # 206 * 636 / 451 is 290.5: 291 rows, (640 - 291) // 2 above them; from 290.5 it would be 175.
    assert place((206, 451), (640, 640), True, NAS).pad == (174, 2)
    assert place((206, 451), (640, 640), True, NAS._replace(box_gain="unrounded")).pad == (175, 2)


SIDES = st.integers(1, 5000)
NETWORKS = st.integers(32, 1344)


@given(
    source=st.tuples(SIDES, SIDES),
    network=st.tuples(NETWORKS, NETWORKS),
    preserve_aspect=st.booleans(),
    rules=st.builds(
        Rules,
        crop=st.booleans(),
        letterbox=st.sampled_from(["centre", "top_left"]),
        resize_rounding=st.sampled_from(["half_even", "floor"]),
        letterbox_margin=st.integers(0, 8),
        box_gain=st.sampled_from(["exact", "unrounded", "unrounded_pad", "unrounded_gain"]),
    ),
)
def test_every_placement_covers_and_is_undone(source: Size, network: Size, preserve_aspect: bool, rules: Rules) -> None:
    placement = place(source, network, preserve_aspect, rules)
    for side, room, start in zip(placement.resized, network, placement.offset):
        assert side >= 1
        # Either the image lies inside the network's input, or it sticks out on both sides.
        assert 0 <= start <= room - side or room - side <= start <= 0
    exact = FrameGeometry(*placement[:4])
    (top, left), (height, width) = placement.offset, placement.resized
    whole = np.array([[left, top, left + width, top + height]], np.float32)
    assert exact.to_source(whole)[0] == pytest.approx([0, 0, source[1], source[0]], rel=1e-5, abs=1e-2)
    # The other ways back are off by no more than two pixels of the network, which the longest side knows best.
    per_pixel = max(source) / max(placement.resized)
    points = whole.reshape(-1, 2)
    off = FrameGeometry(*placement).points_to_source(points) - exact.points_to_source(points)
    assert min(source) < 20 or np.abs(off).max() <= 2 * per_pixel + 1e-2


def test_only_what_is_said_is_read() -> None:
    assert rules_of({"height": 640, "preserve_aspect": True}) == Rules()
    assert rules_of({"letterbox": "top_left", "crop": True}) == Rules(crop=True, letterbox="top_left")
