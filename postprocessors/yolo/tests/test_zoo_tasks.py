"""Raw outputs of Ultralytics' own exports: masks, keypoints and rotated boxes as its own predict() finds them.

tests/data/zoo holds the anchors that reach the lowest confidence of one picture; the models have random weights.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from postprocessors.geometry import FrameGeometry
from postprocessors.results import Detections
from postprocessors.yolo import rotated
from postprocessors.yolo.support import PRESETS
from postprocessors.yolo.tests.task_heads import task_decoder
from runtimes.preprocessors.placement import place

ZOO = Path(__file__).parents[3] / "tests" / "data" / "zoo"


class Case:
    """One stored case."""

    def __init__(self, name: str) -> None:
        self.stored = np.load(ZOO / f"{name}.npz")
        self.about: dict[str, Any] = json.loads(self.stored["about"].tobytes())
        placed = place(tuple(self.about["source"]), tuple(self.about["network"]), preserve_aspect=True)
        self.frame = FrameGeometry(placed.source, placed.resized, placed.network, placed.offset)

    def decode(self, index: int, frame: FrameGeometry, reverse: bool = False) -> Detections:
        """Return what we find with the vendor's parameters number `index`."""
        params = self.about["params"][index]
        decode = task_decoder(
            self.about["task"],
            self.about["num_classes"],
            **{
                **PRESETS["ultralytics"]["detection"],
                "score_threshold": params["conf"],
                "iou_threshold": params["iou"],
                "max_det": params["max_det"],
                "end_to_end": self.about["end_to_end"],
            },
        )
        raw = [self.stored[f"raw_{number}"] for number in range(len(self.about["outputs"]))]
        return decode(raw[::-1] if reverse else raw, [frame])[0]


@pytest.mark.parametrize("reverse", [False, True])
def test_segmentation(reverse: bool) -> None:
    case = Case("v8p-seg_320")
    expected, areas = case.stored["found_0"], case.stored["areas_0"]
    # The vendor counts at the network's size.
    at_network = case.decode(0, FrameGeometry((320, 320), (320, 320), (320, 320)), reverse)
    # The stored prototypes are rounded to half precision: a pixel here and there.
    np.testing.assert_allclose([mask.area for mask in at_network.masks or ()], areas, rtol=0.01, atol=2)
    found = case.decode(0, case.frame, reverse)
    expected = expected[(expected[:, 2:4] > expected[:, :2]).all(axis=1)]
    same_boxes(found, expected)
    assert all(mask.area for mask in found.masks or ())


def test_keypoints() -> None:
    case = Case("v26p-pose_320")
    found = case.decode(0, case.frame)
    same_boxes(found, case.stored["found_0"])
    assert found.keypoints is not None
    np.testing.assert_allclose(found.keypoints[..., :2], case.stored["keypoints_0"][..., :2], atol=1e-3)
    np.testing.assert_allclose(found.keypoints[..., 2], case.stored["keypoints_0"][..., 2], atol=1e-6)


@pytest.mark.parametrize("name", ["v26p-obb_320_e2e", "yolo11n-obb_320_fp16"])
@pytest.mark.parametrize("index", [0, 1])
def test_oriented(name: str, index: int) -> None:
    case = Case(name)
    found = case.decode(index, case.frame)
    expected = case.stored[f"found_{index}"]
    around = case.frame.clip(rotated.enclosing(expected[:, :5]))
    # What lies outside the image is dropped here.
    inside = (around[:, 2:] > around[:, :2]).all(axis=1)
    assert found.rotated is not None
    ours = in_order(np.column_stack([found.rotated, found.scores, found.class_ids, found.boxes]))
    theirs = in_order(np.column_stack([expected, around])[inside])
    np.testing.assert_allclose(ours, theirs, atol=1e-3)


def same_boxes(found: Detections, expected: npt.NDArray[np.float32]) -> None:
    np.testing.assert_allclose(found.boxes, expected[:, :4], atol=1e-3)
    np.testing.assert_allclose(found.scores, expected[:, 4], atol=1e-6)
    np.testing.assert_array_equal(found.class_ids, expected[:, 5])


def in_order(found: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    # Equal scores are not ranked alike by everybody.
    return found[np.lexsort((found[:, 0].round(1), found[:, 5].round(5)))]
