"""Raw outputs of Ultralytics' own export, decoded as its own pipeline does it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from postprocessors.classification.decode import create
from postprocessors.classification.support import DEFAULTS, PRESETS
from postprocessors.contract import DecoderConfig
from postprocessors.geometry import FrameGeometry

ZOO = Path(__file__).parents[3] / "tests" / "data" / "zoo"


@pytest.mark.parametrize("image", ["bus", "zidane", "chelsea"])
def test_decodes_as_the_vendor_does(image: str) -> None:
    stored = np.load(ZOO / "yolo11n-cls_224.npz")
    expected = json.loads(stored["about"].tobytes())["images"][image]
    settings = {**DEFAULTS, **PRESETS["ultralytics-classify"]["detection"], "num_classes": 1000}
    frame = FrameGeometry(tuple(expected["source"]), (224, 224), (224, 224))
    (found,) = create(DecoderConfig(settings))([stored[f"raw_{image}"]], [frame])
    assert found.class_ids.tolist() == expected["top5"]
    np.testing.assert_allclose(found.scores, expected["top5conf"], atol=1e-7)
