"""Settings that cannot work are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto

from tests.convertor.conversions import refused
from tests.convertor.detectors import NCHW, STAGE, detector, graph
from tests.convertor.packages import onnx_bytes, yolo_manifest


@pytest.mark.parametrize(
    ("manifest", "files", "line"),
    [
        pytest.param(
            detector({}),
            graph(1, 4, 64, 64),
            "model.onnx: input images: expected 1 or 3 channels, got 4",
            id="four channels",
        ),
        pytest.param(
            detector({}), graph(3, 64, 64), "model.onnx: input images: expected four axes", id="no batch axis"
        ),
        pytest.param(
            detector({}), graph(1, 3, 64, 1 << 40), "model.onnx: input images: expected axes from 1", id="wide"
        ),
        pytest.param(
            detector({}), graph(1 << 40, 3, 64, 64), "model.onnx: input images: expected axes", id="huge batch"
        ),
        pytest.param(
            detector({}), graph(0, 3, 64, 64), "model.onnx: input images: expected axes from 1", id="batch of 0"
        ),
        pytest.param(detector({}), graph(1, 100), "model.onnx: input images: expected four axes", id="no image"),
        pytest.param(
            detector({}), graph(*NCHW, dtype=TensorProto.INT8), "model.onnx: input images: expected floating", id="int8"
        ),
        pytest.param(
            detector({}),
            graph(*NCHW, dtype=TensorProto.STRING),
            "model.onnx: input images: expected floating",
            id="text",
        ),
        pytest.param(
            detector({}),
            {"model.onnx": onnx_bytes({"a": NCHW, "b": NCHW})},
            "model.onnx: expected one input (the image), got 2: a, b",
            id="two inputs",
        ),
        pytest.param(
            detector({"normalize": True}),
            graph(*NCHW, dtype=TensorProto.UINT8),
            f"{STAGE}.normalize: expected false",
            id="normalised integers",
        ),
        pytest.param(
            detector({"normalize": True, "mean": [0.5]}),
            None,
            f"{STAGE}.mean: expected 3 numbers",
            id="mean of one channel",
        ),
        pytest.param(
            detector({"normalize": True, "std": [0.5] * 4}),
            None,
            f"{STAGE}.std: expected 3 numbers",
            id="std of four channels",
        ),
        pytest.param(
            detector({}, num_classes=5, class_names=["a"] * 5),
            None,
            "manifest.json: detection.num_classes: expected ",
            id="the graph has fewer classes",
        ),
        pytest.param(
            detector({}, classes=["bird"]),
            None,
            'manifest.json: detection.classes: expected names or ids of the model\'s 3 classes, got "bird"',
            id="an unknown class kept",
        ),
        pytest.param(
            detector({}, classes=[3]),
            None,
            "manifest.json: detection.classes: expected names or ids of the model's 3 classes, got 3",
            id="a class id too high",
        ),
        pytest.param(
            detector({}, class_thresholds={"bird": 0.5}),
            None,
            "manifest.json: detection.class_thresholds: expected names",
            id="a threshold for nobody",
        ),
        pytest.param(
            {**yolo_manifest(), "outputs": {"boxes": {"tensor": 3}}},
            None,
            "manifest.json: outputs.boxes.tensor: expected one of the graph's outputs (0 output0), got 3",
            id="an output number that is not there",
        ),
        pytest.param(
            {**yolo_manifest(), "outputs": {"boxes": {"tensor": "dets"}}},
            None,
            'manifest.json: outputs.boxes.tensor: expected one of the graph\'s outputs (0 output0), got "dets"',
            id="an output name that is not there",
        ),
    ],
)
def test_what_cannot_work_is_refused(
    tmp_path: Path, manifest: dict[str, Any], files: dict[str, bytes] | None, line: str
) -> None:
    lines = refused(tmp_path, manifest, files)
    assert any(found.startswith(line) for found in lines), lines
    assert all("; " in found for found in lines)


def test_b58_a_graph_of_any_size_needs_a_manifest_that_says_one(tmp_path: Path) -> None:
    (line,) = refused(tmp_path, detector({}), graph("batch", 3, "height", "width"))
    assert line == (
        f"{STAGE}.input_shape: expected the network's size, which the graph leaves open, got nothing; "
        "add input_shape [1, 3, height, width]"
    )


def test_b61_mean_and_std_are_for_values_from_0_to_1(tmp_path: Path) -> None:
    (line,) = refused(tmp_path, detector({"normalize": True, "image_range_scale": False}))
    assert line.startswith(f"{STAGE}.normalize: expected image_range_scale true with it (mean and std are for 0..1)")


def test_b69_one_channel_has_no_three_means(tmp_path: Path) -> None:
    lines = refused(tmp_path, detector({"normalize": True, "input_shape": [1, 1, 640, 640]}), graph(1, 1, 640, 640))
    assert [line.partition(", ")[0] for line in lines] == [
        f"{STAGE}.mean: expected 1 number",
        f"{STAGE}.std: expected 1 number",
    ]


@pytest.mark.parametrize(
    ("stage", "dtype", "line"),
    [
        pytest.param(
            {"resize_dtype": "float32", "interpolation": "antialias"},
            TensorProto.FLOAT,
            f"{STAGE}.resize_dtype: expected uint8 with interpolation antialias, got float32",
            id="antialiased floats",
        ),
        pytest.param(
            {"resize_dtype": "float32"},
            TensorProto.UINT8,
            f"{STAGE}.resize_dtype: expected uint8 for a graph that takes integers, got float32",
            id="floats for integers",
        ),
        pytest.param(
            {"resize": "letterbox", "letterbox_margin": 64},
            TensorProto.FLOAT,
            f"{STAGE}.letterbox_margin: expected less than the network's shorter side, 64, got 64",
            id="nothing but margin",
        ),
    ],
)
def test_ways_of_resizing_that_do_not_go_together(tmp_path: Path, stage: dict[str, Any], dtype: int, line: str) -> None:
    (found,) = refused(tmp_path, detector(stage), graph(*NCHW, dtype=dtype))
    assert found == f"{line}; correct {'one of them' if 'antialias' in line else 'it'}"
