"""Served detections of the demo's detector: against an independent pipeline, and our own parts called directly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convertor.serve.process import Server
from postprocessors.contract import DecoderConfig, make_decoder
from postprocessors.geometry import FrameGeometry
from postprocessors.results import Detections
from runtimes.contract import RunnerOptions, make_runner
from runtimes.preprocessors.base import BasePreprocessor
from tests.clients import Client, detected
from tests.reference.compare import differences
from tests.reference.images import derive
from tests.server.conftest import ROOT

pytestmark = pytest.mark.server

REFERENCE: dict[str, Any] = json.loads((ROOT / "tests/reference/doclayout_reference.json").read_text())["images"]
Image = np.ndarray[Any, Any]


class Direct:
    """Preprocess, runner and decoder of a published version, in this process."""

    def __init__(self, version: Path) -> None:
        model = json.loads((version / "model.json").read_text())
        self.preprocess = BasePreprocessor(model["preprocess"])
        self.runner = make_runner(model["runtime"], RunnerOptions(version / model["artifact"], device=model["device"]))
        names = tuple(spec.name for spec in self.runner.outputs)
        config = DecoderConfig(model["decode"], tuple(model["class_names"]), names, model["outputs"])
        self.decode = make_decoder(model["family"], config)

    def __call__(self, image: Image) -> Image:
        batch, placements = self.preprocess([image])
        (found,) = self.decode(self.runner(batch), [FrameGeometry(*placement) for placement in placements])
        assert isinstance(found, Detections)
        return np.column_stack([found.boxes, found.scores, found.class_ids]).astype(np.float64)


@pytest.fixture(scope="module")
def direct(repository: Path) -> Direct:
    return Direct(repository / "base_doclayout/1")


@pytest.fixture(scope="module")
def directly(direct: Direct) -> dict[str, Image]:
    return {name: direct(derive(name)) for name in REFERENCE}


@pytest.mark.parametrize("name", REFERENCE)
def test_served_detections_are_the_references_and_our_own(
    server: Server, directly: dict[str, Image], name: str
) -> None:
    image = derive(name)
    for protocol in ("http", "grpc"):
        with Client(server, protocol) as client:
            rows = detected(client.capture("doclayout", image))
        assert differences(REFERENCE[name], rows).problems == []
        served = np.array(rows).reshape(-1, 6)
        assert served.shape == directly[name].shape
        np.testing.assert_allclose(served[:, :4], directly[name][:, :4], atol=1e-3)
        np.testing.assert_allclose(served[:, 4], directly[name][:, 4], atol=1e-5)
        np.testing.assert_array_equal(served[:, 5], directly[name][:, 5])
