"""Decoders of the tasks beyond plain boxes, and what holds for everything that they return."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from postprocessors.contract import DecoderConfig
from postprocessors.geometry import FrameGeometry
from postprocessors.results import Detections
from postprocessors.yolo.decode import YoloDecoder, create
from postprocessors.yolo.support import DEFAULTS


def task_decoder(task: str, num_classes: int, **settings: Any) -> YoloDecoder:
    return create(DecoderConfig({**DEFAULTS, "num_classes": num_classes, **settings}, task=task))


def check(found: Detections, frame: FrameGeometry, classes: int, threshold: float = 0.25) -> None:
    """Assert the rules that every result of every task keeps."""
    height, width = frame.source
    x1, y1, x2, y2 = found.boxes.T
    assert ((x1 >= 0) & (y1 >= 0) & (x2 <= width) & (y2 <= height)).all()
    assert ((x2 > x1) & (y2 > y1)).all()
    assert ((found.scores >= np.float32(threshold)) & (found.scores <= 1)).all()
    assert (np.diff(found.scores) <= 0).all()
    assert ((found.class_ids >= 0) & (found.class_ids < classes)).all()
    json.loads(found.to_json(), parse_constant=pytest.fail)
    if found.masks is not None:
        assert len(found.masks) == len(found)
        for mask, (left, top, right, bottom) in zip(found.masks, found.boxes):
            rows, columns = mask.pixels.shape
            assert mask.pixels.dtype == np.uint8
            assert not mask.pixels.size or set(np.unique(mask.pixels)) <= {0, 1}
            # A pixel is in the box if its place is; the last one may reach out of it.
            assert not mask.pixels.size or (mask.top >= top and mask.left >= left)
            assert not mask.pixels.size or (mask.top + rows < bottom + 1 and mask.left + columns < right + 1)
    if found.keypoints is not None:
        assert found.keypoints.shape[::2] == (len(found), 3)
        x, y, visibility = np.moveaxis(found.keypoints, 2, 0)
        assert ((x >= 0) & (x <= width) & (y >= 0) & (y <= height)).all()
        assert ((visibility >= 0) & (visibility <= 1)).all()
    if found.rotated is not None:
        assert found.rotated.shape == (len(found), 5)
        assert np.isfinite(found.rotated).all()
        assert (found.rotated[:, 2:4] >= 0).all()
