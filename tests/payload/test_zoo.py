"""Raw outputs of vendors' own exports, decoded by us as their own pipelines decode them.

Each file of tests/data/zoo holds one picture's raw tensors of a model, and what the vendor finds in them: x1, y1, x2,
y2 in source pixels, score, class. tests/zoo/facts.py writes most of them; tests/zoo/test_zoo.py compares the whole zoo.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from postprocessors.contract import Decoder, DecoderConfig, make_decoder
from postprocessors.geometry import FrameGeometry
from postprocessors.results import Detections
from postprocessors.rf_detr.support import DEFAULTS as RF_DETR
from postprocessors.yolo.support import DEFAULTS as YOLO
from runtimes.preprocessors.placement import place, rules_of

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


@pytest.mark.parametrize(
    ("case", "num_classes"),
    [
        ("doclaynet-yolov8n-trained", 11),
        ("legacy-ul842-v8p80", 80),
        ("libre-picodet", 80),
        ("v10p80_320_e2e", 80),
        ("v26p80_320_e2e", 80),
        ("v8p6tricky_320", 6),
        ("v8p80_320", 80),
        ("v8p80_320_nms", 80),
        ("v8p80_320_nms_dyn_b1", 80),
        ("yolov5v7-p80_320", 80),
    ],
)
def test_a_preset_decodes_as_its_vendor_does(case: str, num_classes: int) -> None:
    stored = np.load(ZOO / f"{case}.npz")
    about = json.loads(stored["about"].tobytes())
    support: Any = importlib.import_module(f"postprocessors.{about['decoder']}.support")
    preset = support.PRESETS[about["preset"]]
    frame = _frame(preset["stage"], about)
    raw = [stored[f"raw_{index}"] for index in range(len(about["outputs"]))]
    for index, detection in enumerate(about["detection"]):
        settings = {**support.DEFAULTS, **preset["detection"], "num_classes": num_classes, **detection}
        config = DecoderConfig(settings, output_names=tuple(about["outputs"]))
        (found,) = make_decoder(about["decoder"], config)(raw, [frame])
        assert isinstance(found, Detections)
        expected = stored[f"found_{index}"]
        boxes = frame.clip(expected[:, :4])
        expected = np.column_stack([boxes, expected[:, 4:]])[(boxes[:, 2:] > boxes[:, :2]).all(axis=1)]
        assert len(expected) > 0
        ours = np.column_stack([found.boxes, found.scores, found.class_ids])
        np.testing.assert_allclose(_in_order(ours), _in_order(expected), atol=1e-3)


def _frame(stage: Mapping[str, Any], about: Mapping[str, Any]) -> FrameGeometry:
    letterboxed = bool(stage.get("preserve_aspect"))
    return FrameGeometry(*place(tuple(about["source"]), tuple(about["network"]), letterboxed, rules_of(stage)))


def _in_order(found: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Scores that differ in the last bit only are not ranked alike by everybody."""
    return found[np.lexsort((found[:, 1].round(1), found[:, 0].round(1), found[:, 4].round(5), found[:, 5]))]
