"""The decoders' own presets: what they make of a picture is what the vendor's code makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from convertor import payload
from convertor.families import find_families, owner_of
from convertor.network import Network
from convertor.notes import Notes
from convertor.presets import settle
from convertor.settings import preprocess_settings
from runtimes.preprocessors.base import BasePreprocessor
from tests.convertor.manifests import parse

INPUTS = Path(__file__).parents[1] / "data" / "inputs"
LEVEL = 1 / 255


@pytest.mark.parametrize(
    ("decoder", "preset", "vendor", "unit", "difference"),
    [
        pytest.param("yolo", "libre-yolo9", "yolo9", 255, 0, id="libre-yolo9"),
        pytest.param("yolo", "yolox", "yolox", 1, 1, id="yolox"),
        pytest.param("yolo", "yolo-nas", "yolo-nas", 255, LEVEL, id="yolo-nas"),
        pytest.param("detr", "hf-rt-detr", "hf", 255, LEVEL, id="hf-rt-detr"),
        pytest.param("detr", "hf-d-fine", "hf", 255, LEVEL, id="hf-d-fine"),
        pytest.param("rf_detr", "rf-detr", "rf-detr", 1, 5e-5, id="rf-detr"),
    ],
)
def test_a_preset_makes_the_vendors_network_input(
    decoder: str, preset: str, vendor: str, unit: int, difference: float
) -> None:
    expected = np.load(INPUTS / "vendors.npz")[vendor].astype(np.float32) / np.float32(unit)
    found = network_input(decoder, preset, expected.shape[1], expected.shape[2])
    assert np.abs(found - expected).max() <= difference * (1 + 1e-5)


def network_input(decoder: str, preset: str, height: int, width: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    family = owner_of(decoder, find_families(payload.POSTPROCESSORS))
    assert family is not None
    notes = Notes()
    manifest = parse({"task": "object_detection", "model_graph": {"stages": [{"preset": preset}]}})
    manifest = settle(manifest, family, None, "model.onnx", notes)
    settings = preprocess_settings(manifest, Network(height, width, 3, "NCHW"), notes)
    assert notes == Notes()
    picture = cv2.cvtColor(cv2.imread(str(INPUTS / "chelsea.png")), cv2.COLOR_BGR2RGB)
    return BasePreprocessor(settings)([picture])[0][0]
