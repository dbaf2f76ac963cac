"""The network's input: what manifest and graph say of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.convertor.conversions import model_json, prepared
from tests.convertor.detectors import NCHW, detector, graph
from tests.convertor.packages import onnx_bytes


@pytest.mark.parametrize(
    ("stage", "detection", "shape", "size", "warned"),
    [
        pytest.param({}, {}, NCHW, (64, 64), [], id="the graph alone"),
        pytest.param({"input_shape": [1, 3, 64, 64]}, {}, NCHW, (64, 64), [], id="all agree"),
        pytest.param({"input_shape": [1, 3, 32, 96]}, {}, ("b", 3, "h", "w"), (32, 96), [], id="input_shape"),
        pytest.param({"image_width": 96, "image_height": 32}, {}, ("b", 3, "h", "w"), (32, 96), [], id="image sides"),
        pytest.param({}, {"network_input": 96}, ("b", 3, "h", "w"), (96, 96), [], id="network_input, a number"),
        pytest.param({}, {"network_input": [32, 96]}, ("b", 3, "h", "w"), (32, 96), [], id="network_input, a pair"),
        pytest.param(
            {"input_shape": [-1, 3, -1, -1]},
            {"network_input": 96},
            ("b", 3, None, None),
            (96, 96),
            [],
            id="an open input_shape says nothing",
        ),
        pytest.param(
            {"input_shape": [1, 3, 32, 96]},
            {"network_input": 96},
            ("b", 3, "h", "w"),
            (32, 96),
            ["detection.network_input says 96 x 96"],
            id="input_shape wins over network_input",
        ),
        pytest.param(
            {"image_width": 96, "image_height": 32},
            {"network_input": 96},
            ("b", 3, "h", "w"),
            (32, 96),
            ["detection.network_input says 96 x 96"],
            id="image sides win over network_input",
        ),
        pytest.param(
            {"input_shape": [1, 3, 96, 96]},
            {},
            NCHW,
            (64, 64),
            ["input_shape says 96 x 96"],
            id="the graph wins over input_shape",
        ),
        pytest.param(
            {"input_shape": [8, 3, 64, 64]}, {}, NCHW, (64, 64), ["input_shape says batch 8, the graph 1"], id="batch"
        ),
        pytest.param(
            {"input_shape": [1, 1, 64, 64]}, {}, NCHW, (64, 64), ["input_shape says 1 channel"], id="channels"
        ),
        pytest.param(
            {"input_shape": [1, 64, 64, 3]}, {}, NCHW, (64, 64), ["input_shape says NHWC, the graph NCHW"], id="layout"
        ),
        pytest.param({"input_shape": [-1, -1, 64, 64]}, {}, NCHW, (64, 64), [], id="open axes say nothing"),
        pytest.param(
            {"input_shape": [1, 3, 64, 64]},
            {"network_input": 640},
            NCHW,
            (64, 64),
            ["detection.network_input says 640 x 640"],
            id="the graph wins over network_input",
        ),
        pytest.param(
            {"input_shape": [1, 3, 96, 96], "image_width": 32, "image_height": 32},
            {"network_input": 64},
            NCHW,
            (64, 64),
            ["input_shape says 96 x 96", "image_height, image_width says 32 x 32"],
            id="each that disagrees",
        ),
        pytest.param(
            {"input_shape": [1, 3, 96, 32]},
            {},
            ("b", 3, 64, "w"),
            (64, 32),
            ["input_shape says 96 x 32"],
            id="the graph knows one side",
        ),
        pytest.param({}, {}, (8, 3, 64, 64), (64, 64), ["the graph takes 8 images at once"], id="fixed batch"),
        pytest.param(
            {"image_width": 96},
            {"network_input": 64},
            ("b", 3, "h", "w"),
            (64, 64),
            [],
            id="one image side says nothing",
        ),
    ],
)
def test_network_size(
    tmp_path: Path,
    stage: dict[str, Any],
    detection: dict[str, Any],
    shape: tuple[Any, ...],
    size: tuple[int, int],
    warned: list[str],
) -> None:
    one = prepared(tmp_path, detector(stage, **detection), graph(*shape))
    preprocess = model_json(one)["preprocess"]
    assert (preprocess["height"], preprocess["width"]) == size
    assert len(one.warnings) == len(warned)
    assert all(said in line for said, line in zip(warned, one.warnings))


@pytest.mark.parametrize(
    ("shape", "stage", "expected"),
    [
        pytest.param((1, 3, 64, 96), {}, (3, "NCHW", 64, 96), id="NCHW"),
        pytest.param((1, 64, 96, 3), {}, (3, "NHWC", 64, 96), id="NHWC"),
        pytest.param((1, 64, 96, 1), {}, (1, "NHWC", 64, 96), id="NHWC grey"),
        pytest.param((1, 1, 64, 96), {}, (1, "NCHW", 64, 96), id="NCHW grey"),
        pytest.param((1, 3, 64, 3), {}, (3, "NCHW", 64, 3), id="three columns are still NCHW"),
        pytest.param(
            ("b", "c", "h", "w"),
            {"input_shape": [1, 64, 96, 3]},
            (3, "NHWC", 64, 96),
            id="open graph, input_shape NHWC",
        ),
        pytest.param(
            ("b", "c", "h", "w"),
            {"input_shape": [1, 1, 64, 96]},
            (1, "NCHW", 64, 96),
            id="open graph, input_shape grey",
        ),
        pytest.param(None, {"input_shape": [1, 3, 64, 96]}, (3, "NCHW", 64, 96), id="a graph without a shape"),
    ],
)
def test_channels_and_layout(
    tmp_path: Path, shape: Any, stage: dict[str, Any], expected: tuple[int, str, int, int]
) -> None:
    files = {"model.onnx": onnx_bytes({"images": shape})}
    written = model_json(prepared(tmp_path, detector(stage), files))["preprocess"]
    assert (written["channels"], written["layout"], written["height"], written["width"]) == expected


def test_b54_height_comes_before_width(tmp_path: Path) -> None:
    written = model_json(prepared(tmp_path, detector({"input_shape": [1, 3, 384, 640]}), graph("b", 3, "h", "w")))
    assert (written["preprocess"]["height"], written["preprocess"]["width"]) == (384, 640)


@pytest.mark.parametrize(
    ("network_input", "warned"),
    [
        pytest.param(640, True, id="a number"),
        pytest.param([384, 640], False, id="a pair"),
        pytest.param(None, False, id="absent"),
    ],
)
@pytest.mark.parametrize("shape", [(1, 3, 384, 640), ("b", 3, "h", "w")], ids=["fixed", "open"])
def test_b55_input_shape_wins_over_one_number_for_both_sides(
    tmp_path: Path, network_input: Any, warned: bool, shape: tuple[Any, ...]
) -> None:
    stage = {"input_shape": [1, 3, 384, 640], "image_width": 640, "image_height": 384}
    one = prepared(tmp_path, detector(stage, network_input=network_input), graph(*shape))
    written = model_json(one)["preprocess"]
    assert (written["height"], written["width"]) == (384, 640)
    assert any("detection.network_input says 640 x 640" in line for line in one.warnings) == warned


def test_b58_symbolic_sides_are_the_manifests(tmp_path: Path) -> None:
    files = graph("batch", 3, "height", "width")
    written = model_json(prepared(tmp_path, detector({"input_shape": [1, 3, 640, 640]}), files))["preprocess"]
    assert (written["height"], written["width"]) == (640, 640)
