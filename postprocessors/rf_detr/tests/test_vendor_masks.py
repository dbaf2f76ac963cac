"""Boxes, scores and masks as rfdetr's own PostProcess gives them for the same raw tensors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from postprocessors.geometry import FrameGeometry
from postprocessors.rf_detr.support import PRESETS
from postprocessors.rf_detr.tests.queries import decoder

STORED = Path(__file__).parents[3] / "tests" / "data" / "zoo" / "rfdetr-masks.npz"


def test_masks_are_the_vendors() -> None:
    stored = np.load(STORED)
    about = json.loads(stored["about"].tobytes())
    height, width = about["source"]
    network = tuple(about["network"])
    raw = [stored[f"raw_{index}"] for index in range(3)]
    empty = 0
    for index, params in enumerate(about["params"]):
        settings = {**PRESETS["rf-detr"]["detection"], "score_threshold": params["threshold"]}
        decode = decoder(about["outputs"], task="instance_segmentation", **settings)
        (found,) = decode(raw, [FrameGeometry((height, width), network, network)])
        expected = stored[f"found_{index}"]
        assert len(expected) > 0
        np.testing.assert_allclose(found.boxes, expected[:, :4], atol=1e-4)
        np.testing.assert_allclose(found.scores, expected[:, 4], atol=1e-6)
        np.testing.assert_array_equal(found.class_ids, expected[:, 5])
        theirs = np.unpackbits(stored[f"masks_{index}"], axis=1, count=height * width).reshape(-1, height, width)
        assert found.masks is not None
        assert len(found.masks) == len(theirs)
        for mask, vendors in zip(found.masks, theirs):
            ours = np.zeros((height, width), np.uint8)
            rows, columns = mask.pixels.shape
            ours[mask.top : mask.top + rows, mask.left : mask.left + columns] = mask.pixels
            # A logit of exactly 0 may fall on either side.
            assert (ours != vendors).sum() <= 1
            empty += mask.area == 0
    assert empty > 0, "the vendor keeps a detection whose mask is empty, and so do we"
