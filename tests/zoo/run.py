"""Every picture and parameter set of a case, decoded and compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np

from postprocessors.geometry import FrameGeometry
from postprocessors.results import Classification, Detections
from runtimes.preprocessors.base import BasePreprocessor
from tests.zoo.cases import Case, Found, Picture
from tests.zoo.compare import BOX, HALF_PRECISION_BOX, Tally, compare, compare_masks
from tests.zoo.pipeline import Packages, Served

# Differences that remain: how many lines they make, and why. A line is one detection, ours or the vendor's.
EXPLAINED: Mapping[str, tuple[int, str]] = {
    "v8p80_320_fp16io": (
        4,
        "one detection in two lists: the vendor rounds corners to half precision before NMS, we calculate in float32; "
        "the vendor's own lists in float32 arithmetic agree",
    ),
}


@dataclass
class Outcome:
    """A case's tally, its pictures, and how many network inputs were compared and which differ."""

    tally: Tally = field(default_factory=Tally)
    pictures: list[str] = field(default_factory=list)
    inputs: int = 0
    inputs_that_differ: list[str] = field(default_factory=list)


def run(case: Case, folder: Path) -> Outcome:
    """Compare everything of a case; `folder` takes the packages that are converted."""
    outcome, packages = Outcome(), Packages(folder)
    for picture in case.pictures():
        outcome.pictures.append(picture.name)
        served = None
        for found in picture.found:
            served = packages.serve(case, picture.network, found)
            tally = _compared(case, served, picture, found)
            tally.problems = [f"{picture.name}: {found.name}: {problem}" for problem in tally.problems]
            outcome.tally += tally
        if served is not None:
            _compare_input(case, served, picture, outcome)
    return outcome


def _compared(case: Case, served: Served, picture: Picture, found: Found) -> Tally:
    frame = served.frame(picture)
    box = HALF_PRECISION_BOX if case.half_precision and not found.in_float32 else BOX
    result = served.decode(picture, frame)
    assert isinstance(result, (Detections, Classification))
    tally = compare(result, found, frame, box)
    if found.mask_areas is not None:
        network = picture.network
        in_network = served.decode(picture, FrameGeometry(network, network, network))
        assert isinstance(in_network, Detections)
        tally += compare_masks(in_network, found, frame, box)
    return tally


def _compare_input(case: Case, served: Served, picture: Picture, outcome: Outcome) -> None:
    """Compare what our preprocessing makes of a picture with the vendor's own network input, where both are there."""
    named = case.reference["images"][picture.name].get("input_png")
    source = case.folder / "images" / f"{picture.name}.png"
    if not named or not (case.folder / named).is_file() or not source.is_file():
        return
    height, width = picture.network
    settings = {**served.preprocess, "height": height, "width": width}
    batch, _ = BasePreprocessor(settings)([_rgb(source)])
    pixels = _rgb(case.folder / named).transpose(2, 0, 1).astype(np.float32) / np.float32(255)
    outcome.inputs += 1
    if not np.array_equal(batch[0], pixels):
        outcome.inputs_that_differ.append(
            f"{picture.name}: by up to {np.abs(batch[0] - pixels).max() * 255:.2f} levels"
        )


def _rgb(path: Path) -> np.ndarray:
    return cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)
