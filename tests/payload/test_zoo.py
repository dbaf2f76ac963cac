"""Raw outputs of vendors' own exports, decoded by us as their own pipelines decode them.

Each file of tests/data/zoo holds one picture's raw tensors of a model with random weights, and what the vendor named in
`about` finds in them: x1, y1, x2, y2 in source pixels, score, class.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from postprocessors.contract import Decoder, DecoderConfig, make_decoder
from postprocessors.geometry import FrameGeometry
from postprocessors.results import Detections
from postprocessors.rf_detr.support import DEFAULTS as RF_DETR
from postprocessors.yolo.support import DEFAULTS as YOLO
from runtimes.preprocessors.base import place

ZOO = Path(__file__).parents[1] / "data" / "zoo"


@pytest.mark.parametrize("case", ["v8p80_64", "v8p1_320", "rfdetr-nano-tiny91"])
def test_decodes_as_the_vendor_does(case: str) -> None:
    stored = np.load(ZOO / f"{case}.npz")
    about = json.loads(stored["about"].tobytes())
    raw = [stored[f"raw_{index}"] for index in range(len(about["outputs"]))]
    is_yolo = len(raw) == 1
    # Ultralytics letterboxes, RF-DETR stretches.
    frame = FrameGeometry(*place(tuple(about["source"]), tuple(about["network"]), preserve_aspect=is_yolo))
    for index, params in enumerate(about["params"]):
        decode = _yolo(params, raw[0].shape[1] - 4) if is_yolo else _rf_detr(params, about["outputs"])
        (found,) = decode(raw, [frame])
        assert isinstance(found, Detections)
        expected = stored[f"found_{index}"]
        # The vendor also returns boxes that clipping leaves without area.
        expected = expected[(expected[:, 2:4] > expected[:, :2]).all(axis=1)]
        assert len(expected) > 0
        np.testing.assert_allclose(found.boxes, expected[:, :4], atol=1e-3)
        np.testing.assert_allclose(found.scores, expected[:, 4], atol=1e-6)
        np.testing.assert_array_equal(found.class_ids, expected[:, 5])


def _yolo(params: dict[str, Any], num_classes: int) -> Decoder:
    settings = {
        "num_classes": num_classes,
        "score_threshold": params["conf"],
        "iou_threshold": params["iou"],
        "max_det": params["max_det"],
        "compare": "greater",
    }
    return make_decoder("yolo", DecoderConfig({**YOLO, **settings}))


def _rf_detr(params: dict[str, Any], names: list[str]) -> Decoder:
    settings = {"score_threshold": params["threshold"], "top_k": params["num_select"], "compare": "greater"}
    return make_decoder("rf_detr", DecoderConfig({**RF_DETR, **settings}, output_names=tuple(names)))
