"""What model.json tells the payload: defaults, precedence, and what manifest and graph say differently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto

from tests.convertor.conversions import model_json, prepared, refused
from tests.convertor.packages import anomaly_manifest, onnx_bytes, yolo_manifest

STAGE = "manifest.json: model_graph.stages[0]"
NCHW = (1, 3, 64, 64)


def detector(stage: dict[str, Any], **detection: Any) -> dict[str, Any]:
    manifest = yolo_manifest()
    manifest["detection"].update(detection)
    manifest["model_graph"]["stages"] = [{"type": "yolo_object_detection", **stage}]
    return manifest


def graph(*shape: int | str | None, **more: Any) -> dict[str, bytes]:
    return {"model.onnx": onnx_bytes({"images": shape}, **more)}


def test_names_in_the_graph_that_are_no_text_of_one_line_are_left_out(tmp_path: Path) -> None:
    """A lone surrogate could not even be written into model.json, which is UTF-8."""
    manifest = detector({}, num_classes=5)
    del manifest["detection"]["class_names"]
    embedded = r"{0: 'cat', 1: '\ud800', 2: 'a\nb', 3: '\x1b[31m', 4: 'été'}"
    head = {"output0": (1, 9, 21)}
    one = prepared(tmp_path, manifest, {"model.onnx": onnx_bytes(outputs=head, names=embedded)})
    assert model_json(one)["class_names"] == ["cat", "", "", "", "été"]


def test_defaults_of_a_detector(tmp_path: Path) -> None:
    manifest = {"runtime": "onnx", "task": "object_detection", "detection": {"layout": "yolo", "num_classes": 3}}
    written = model_json(prepared(tmp_path, manifest, graph(*NCHW)))
    assert written["preprocess"] == {
        "height": 64,
        "width": 64,
        "channels": 3,
        "layout": "NCHW",
        "preserve_aspect": False,
        "interpolation": "area",
        "image_range_scale": True,
        "mean": None,
        "std": None,
        "channel_order": "rgb",
    }
    assert written["decode"] == {
        "num_classes": 3,
        "score_threshold": 0.25,
        "iou_threshold": 0.45,
        "max_det": 300,
        "class_agnostic": False,
        "compare": "greater_equal",
        "classes": None,
        "class_thresholds": None,
        "box_format": "cxcywh",
        "end_to_end": False,
    }


def test_defaults_of_a_detr(tmp_path: Path) -> None:
    manifest = {"runtime": "onnx", "task": "object_detection", "detection": {"layout": "rf_detr"}}
    files = graph(*NCHW, outputs={"dets": (1, 50, 4), "labels": (1, 50, 4)})
    decode = model_json(prepared(tmp_path, manifest, files))["decode"]
    assert (decode["score_threshold"], decode["top_k"], decode["max_det"]) == (0.5, 300, 300)
    assert (decode["use_softmax"], decode["background_class"]) == (False, None)


def test_defaults_of_an_anomaly_model(tmp_path: Path) -> None:
    written = model_json(prepared(tmp_path, {"runtime": "onnx"}, graph(*NCHW)))
    assert written["decode"]["threshold"] == 0.5
    assert (written["task"], written["family"], written["device"]) == ("anomaly", "anomaly", "auto")


def test_an_anomaly_model_reads_only_the_threshold_of_its_stage(tmp_path: Path) -> None:
    manifest = {**anomaly_manifest(), "detection": {"score_threshold": 0.9}}
    assert model_json(prepared(tmp_path, manifest))["decode"] == {
        "threshold": 0.702,
        "class_normal_ids": [1],
        "pixel_class_names": ["background", "scratch"],
    }


@pytest.mark.parametrize(
    ("stage", "detection", "expected"),
    [
        pytest.param({}, {}, 0.25, id="default"),
        pytest.param({"threshold": 0.4}, {}, 0.4, id="the stage's threshold"),
        pytest.param({"threshold": 0.4}, {"score_threshold": 0.6}, 0.6, id="detection wins over it"),
        pytest.param({"score_threshold": 0.7}, {"score_threshold": 0.6}, 0.7, id="a stage that says otherwise"),
        pytest.param({"threshold": 0}, {}, 0, id="zero is a threshold"),
    ],
)
def test_score_threshold(tmp_path: Path, stage: dict[str, Any], detection: dict[str, Any], expected: float) -> None:
    assert model_json(prepared(tmp_path, detector(stage, **detection)))["decode"]["score_threshold"] == expected


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


@pytest.mark.parametrize(
    ("manifest", "files", "line"),
    [
        pytest.param(
            detector({}),
            graph("b", 3, "h", "w"),
            f"{STAGE}.input_shape: expected the network's size",
            id="dynamic, no size anywhere",
        ),
        pytest.param(
            detector({}),
            graph(1, 4, 64, 64),
            "model.onnx: input images: expected 1 or 3 channels, got 4",
            id="four channels",
        ),
        pytest.param(
            detector({}), graph(3, 64, 64), "model.onnx: input images: expected four axes", id="no batch axis"
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
            detector({"normalize": True, "image_range_scale": False}),
            None,
            f"{STAGE}.normalize: expected image_range_scale true",
            id="normalised but not scaled",
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
            detector({"normalize": True}),
            graph(1, 1, 64, 64),
            f"{STAGE}.mean: expected 1 number",
            id="ImageNet's mean on grey",
        ),
        pytest.param(
            detector({}, num_classes=5, class_names=["a"] * 5),
            None,
            "manifest.json: detection.num_classes: expected a head with 9 channels",
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


def test_normalise_means_imagenet_unless_told_otherwise(tmp_path: Path) -> None:
    written = model_json(prepared(tmp_path, detector({"normalize": True})))["preprocess"]
    assert (written["mean"], written["std"]) == ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])


def test_mean_and_std_without_normalise_are_not_used_but_named(tmp_path: Path) -> None:
    one = prepared(tmp_path, detector({"mean": [0.5] * 3, "std": [0.5] * 3}))
    assert model_json(one)["preprocess"]["mean"] is None
    (line,) = one.warnings
    assert line.startswith(f"{STAGE}.mean and std: not used, because normalize is not true")


def test_pixels_as_they_are(tmp_path: Path) -> None:
    written = model_json(prepared(tmp_path, detector({"image_range_scale": False})))["preprocess"]
    assert (written["image_range_scale"], written["mean"]) == (False, None)


@pytest.mark.parametrize("dtype", [TensorProto.UINT8, TensorProto.INT32])
def test_an_integer_graph_takes_pixels_as_they_are(tmp_path: Path, dtype: int) -> None:
    one = prepared(tmp_path, detector({"image_range_scale": True}), graph(*NCHW, dtype=dtype))
    assert model_json(one)["preprocess"]["image_range_scale"] is False
    assert "the graph takes integers" in one.warnings[0]


@pytest.mark.parametrize(
    ("normalize", "warned"),
    [
        pytest.param({"normalize": False}, True, id="false"),
        pytest.param({}, True, id="absent"),
        pytest.param({"normalize": True}, False, id="true"),
    ],
)
def test_a_detr_without_normalisation_gets_a_word(tmp_path: Path, normalize: dict[str, Any], warned: bool) -> None:
    manifest = yolo_manifest(detection={"layout": "rf_detr", "num_classes": 3})
    manifest["model_graph"]["stages"] = [{"type": "rf_detr_object_detection", **normalize}]
    files = graph(*NCHW, outputs={"dets": (1, 50, 4), "labels": (1, 50, 3)})
    warnings = prepared(tmp_path, manifest, files).warnings
    assert any("normalize" in line and "ImageNet" in line for line in warnings) == warned


NAMES = "{0: 'a', 2: 'c', 1: 'b'}"


@pytest.mark.parametrize(
    ("detection", "embedded", "names", "count"),
    [
        pytest.param(
            {"num_classes": 3, "class_names": ["x", "y", "z"]}, NAMES, ["x", "y", "z"], 3, id="the manifest wins"
        ),
        pytest.param({"num_classes": 3}, NAMES, ["a", "b", "c"], 3, id="metadata when the manifest has none"),
        pytest.param({}, NAMES, ["a", "b", "c"], 3, id="metadata gives the count too"),
        pytest.param({"num_classes": 3}, "['a', 'b']", [], 3, id="metadata of another count is not used"),
        pytest.param({"num_classes": 3}, "not a list", [], 3, id="metadata that is no list"),
        pytest.param({"num_classes": 3}, None, [], 3, id="no names anywhere"),
        pytest.param({"class_names": ["x", "y", "z"]}, None, ["x", "y", "z"], 3, id="names give the count"),
    ],
)
def test_where_class_names_come_from(
    tmp_path: Path, detection: dict[str, Any], embedded: str | None, names: list[str], count: int
) -> None:
    manifest = yolo_manifest(detection={"layout": "yolo", **detection})
    written = model_json(prepared(tmp_path, manifest, {"model.onnx": onnx_bytes(names=embedded)}))
    assert written["class_names"] == names
    assert written["decode"]["num_classes"] == count


def test_fewer_names_than_classes_are_named(tmp_path: Path) -> None:
    (line,) = prepared(tmp_path, detector({}, class_names=["cat"])).warnings
    assert line == "manifest.json: detection.class_names: 1 names for 3 classes; a class without one is class_<id>"


def test_the_background_column_of_a_detr_is_a_class_that_may_be_kept(tmp_path: Path) -> None:
    manifest = yolo_manifest(detection={"layout": "rf_detr", "num_classes": 3, "classes": [3, 0]})
    manifest["model_graph"]["stages"] = [{"type": "rf_detr_object_detection", "normalize": True}]
    files = graph(*NCHW, outputs={"dets": (1, 50, 4), "labels": (1, 50, 4)})
    assert model_json(prepared(tmp_path, manifest, files))["decode"]["classes"] == [3, 0]


def test_class_ids_are_not_checked_against_an_unknown_count(tmp_path: Path) -> None:
    manifest = yolo_manifest(detection={"layout": "rf_detr", "classes": [7]})
    manifest["model_graph"]["stages"] = [{"type": "rf_detr_object_detection", "normalize": True}]
    files = graph(*NCHW, outputs={"dets": (1, 50, 4), "labels": (1, 50, 91)})
    assert model_json(prepared(tmp_path, manifest, files))["decode"]["classes"] == [7]


def test_a_head_of_unknown_rank_is_left_to_the_server(tmp_path: Path) -> None:
    files = {"model.onnx": onnx_bytes(outputs={"output0": None})}
    assert prepared(tmp_path, yolo_manifest(), files).warnings == ()
