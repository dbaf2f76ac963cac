"""Raw outputs of vendors' own exports, decoded by us as their own pipelines decode them.

tests/data/zoo holds one picture's raw tensors of a model with random weights, and what the vendor named in `about`
finds in them: x1, y1, x2, y2 in source pixels, score, class.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from postprocessors.contract import DecoderConfig
from postprocessors.detr.decode import create
from postprocessors.detr.support import DEFAULTS, PRESETS
from postprocessors.geometry import FrameGeometry

ZOO = Path(__file__).parents[3] / "tests" / "data" / "zoo"


@pytest.mark.parametrize("case", ["hf-detr", "hf-rtdetr", "rtdetr-pico_320", "legacy-ul842-rtdetr"])
def test_decodes_as_the_vendor_does(case: str) -> None:
    stored = np.load(ZOO / f"{case}.npz")
    about = json.loads(stored["about"].tobytes())
    raw = [stored[f"raw_{index}"] for index in range(len(about["outputs"]))]
    network = tuple(about["network"])
    frame = FrameGeometry(tuple(about["source"]), network, network)
    for index, params in enumerate(about["params"]):
        settings = {
            **DEFAULTS,
            **PRESETS[about["preset"]]["detection"],
            "num_classes": about["num_classes"],
            "score_threshold": params.get("conf", params.get("threshold")),
        }
        (found,) = create(DecoderConfig(settings, output_names=tuple(about["outputs"])))(raw, [frame])
        expected = by_our_rules(stored[f"found_{index}"], frame)
        assert len(expected) > 0
        ours = np.column_stack([found.boxes, found.scores, found.class_ids])
        # Scores that differ in the last bit only are not ranked alike by everybody.
        ours, expected = in_order(ours), in_order(expected)
        np.testing.assert_allclose(ours[:, :4], expected[:, :4], atol=1e-3)
        np.testing.assert_allclose(ours[:, 4], expected[:, 4], atol=1e-6)
        np.testing.assert_array_equal(ours[:, 5], expected[:, 5])


def by_our_rules(found: npt.NDArray[np.float32], frame: FrameGeometry) -> npt.NDArray[np.float32]:
    """Return the vendor's list clipped to the image, without what that leaves no area."""
    boxes = frame.clip(found[:, :4])
    return np.column_stack([boxes, found[:, 4:]])[(boxes[:, 2:] > boxes[:, :2]).all(axis=1)]


def in_order(found: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return found[np.lexsort((found[:, 1].round(1), found[:, 0].round(1), found[:, 4].round(5), found[:, 5]))]
