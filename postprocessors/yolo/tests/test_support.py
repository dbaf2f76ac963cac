"""What convert refuses of a YOLO package before anything runs, and what a graph's metadata settles."""

from __future__ import annotations

from typing import Any

import pytest

from postprocessors.yolo.support import DEFAULTS, NAMES, PRESETS, TASKS, advise, check, derive, engine_batch

ULTRALYTICS = {"stride": "32", "task": "detect", "head": "Detect", "end2end": "False", "args": "{'nms': None}"}

PROTOTYPES = [1, 32, 160, 160]


def facts(*shapes: list[Any], **metadata: str) -> dict[str, Any]:
    outputs = [{"name": f"output{i}", "dtype": "float32", "shape": shape} for i, shape in enumerate(shapes)]
    return {"outputs": outputs, "metadata": metadata}


def described(outputs: dict[str, Any] | None = None, task: str = "object_detection", **settings: Any) -> dict[str, Any]:
    return {"settings": {**DEFAULTS, **settings}, "outputs": outputs or {}, "task": task}


def problems(graph: dict[str, Any] | None, outputs: dict[str, Any] | None = None, **settings: Any) -> list[str]:
    return check(described(outputs, **settings), graph)


@pytest.mark.parametrize(
    ("graph", "settings"),
    [
        pytest.param(facts([1, 84, 8400]), {"num_classes": 80}, id="channels-first"),
        pytest.param(facts([1, 8400, 84]), {"num_classes": 80}, id="transposed"),
        pytest.param(facts([1, 25200, 85]), {"num_classes": 80}, id="objectness"),
        pytest.param(facts([1, 300, 6]), {"num_classes": 80}, id="end-to-end"),
        pytest.param(facts([1, 300, 6]), {"num_classes": 80, "end_to_end": True}, id="end-to-end-stated"),
        pytest.param(facts(["batch", 84, "anchors"]), {"num_classes": 3}, id="open-axes-are-seen-at-load"),
        pytest.param(facts([1, 116, 8400], [1, 32, 160, 160]), {"num_classes": 80}, id="B31-prototypes"),
        pytest.param(facts([1, 56, 8400]), {"num_classes": 1}, id="B31-person"),
        pytest.param(facts([1, 18, 8400]), {"num_classes": 2, "keypoints": [4, 3]}, id="keypoints-stated"),
        pytest.param(facts([1, 84, 8400], [1, 84, 100]), {"num_classes": 3}, id="two-heads-are-seen-at-load"),
        pytest.param(facts([1, 8400, 4], [1, 8400, 80]), {"num_classes": 80}, id="boxes-and-scores"),
        pytest.param(facts([1, 1], [1, 100, 4], [1, 100], [1, 100]), {"num_classes": 80}, id="efficient-nms"),
        pytest.param(facts(["n", 7]), {"num_classes": 80}, id="B26-rows-with-an-index"),
        pytest.param(facts([1, 26208, 8], [1, 3, 64, 104, 8]), {"num_classes": 3}, id="B08-maps-beside-a-head"),
        pytest.param(facts([]), {"num_classes": 3}, id="rank-unknown"),
        pytest.param(None, {"num_classes": 3}, id="graph-unknown"),
        pytest.param(facts([1, 84, 8400], **ULTRALYTICS), {"num_classes": 80}, id="ultralytics"),
    ],
)
def test_nothing_to_refuse(graph: dict[str, Any] | None, settings: dict[str, Any]) -> None:
    assert problems(graph, **settings) == []


@pytest.mark.parametrize(
    ("graph", "settings", "outputs", "expected"),
    [
        pytest.param(facts([1, 84, 8400]), {"num_classes": 3}, {}, "7 or 8 channels for num_classes=3", id="B07"),
        pytest.param(facts([1, 84, 8400]), {"num_classes": 29}, {}, "33 or 34 channels", id="B07-not-as-keypoints"),
        pytest.param(facts([1, 8400, 116]), {"num_classes": 80}, {}, "got 116 in", id="B31-unexplained"),
        pytest.param(facts([1, 3, 80, 80, 85]), {"num_classes": 80}, {}, "decode (detect) layer", id="B08"),
        pytest.param(facts([10647, 80], [10647, 4]), {"num_classes": 80}, {}, "[10647, 80], [10647, 4]", id="B12"),
        pytest.param(facts([1, 84, 9], end2end="False", head="RTDETRDecoder"), {}, {}, "expected detr", id="rt-detr"),
        pytest.param(facts([1, 20, 9], stride="32", task="obb"), {}, {}, "expected oriented_detection", id="rotated"),
        pytest.param(facts([1, 9], stride="1", task="classify"), {}, {}, "task: expected classification", id="classes"),
        pytest.param(
            facts([1, 84, 99]), {"num_classes": 80, "end_to_end": True}, {}, "end_to_end: expected false", id="no-rows"
        ),
        pytest.param(
            facts([1, 300, 6]), {"num_classes": 80, "end_to_end": False}, {}, "end_to_end: expected true", id="rows"
        ),
        pytest.param(None, {}, {}, "detection.num_classes: expected the number of classes", id="no-count"),
        pytest.param(None, {"num_classes": 3}, {"masks": {"tensor": 1}}, "outputs.masks: expected boxes", id="outputs"),
        pytest.param(None, {"num_classes": 3}, {"a": {"tensor": 1}}, "got 'a'; name it boxes", id="outputs-next-step"),
        pytest.param(None, {"num_classes": 3}, {"scores": {"tensor": 1}}, "outputs.scores: expected boxes", id="alone"),
    ],
)
def test_refusals(graph: Any, settings: dict[str, Any], outputs: dict[str, Any], expected: str) -> None:
    (problem,) = problems(graph, outputs, **settings)
    assert expected in problem
    assert "\n" not in problem


@pytest.mark.parametrize(
    ("task", "shape", "accepted"),
    [
        pytest.param("oriented_detection", [1, 85, 8400], True, id="angle"),
        pytest.param("oriented_detection", [1, 84, 8400], False, id="no-angle"),
        pytest.param("oriented_detection", [1, 300, 7], True, id="angle-end-to-end"),
        pytest.param("keypoint_detection", [1, 135, 8400], True, id="keypoints"),
    ],
)
def test_extra_channels_by_task(task: str, shape: list[int], accepted: bool) -> None:
    assert (check(described(task=task, num_classes=80), facts(shape)) == []) == accepted


@pytest.mark.parametrize(
    ("metadata", "settings"),
    [
        pytest.param({}, {}, id="none"),
        pytest.param(ULTRALYTICS, {"end_to_end": False, "objectness": False}, id="raw"),
        pytest.param({**ULTRALYTICS, "end2end": "True", "args": "{'nms': False}"}, {"end_to_end": True}, id="v26"),
        pytest.param({**ULTRALYTICS, "args": "{'batch': 1, 'nms': True}"}, {"end_to_end": True}, id="nms-in-the-graph"),
        pytest.param({**ULTRALYTICS, "head": "RTDETRDecoder"}, {}, id="rt-detr-is-no-yolo"),
        pytest.param({"stride": "32", "names": "{0: 'a'}"}, {}, id="yolov5-v7-says-nothing"),
        pytest.param({"kpt_shape": "[17, 3]"}, {"keypoints": [17, 3]}, id="pose"),
        pytest.param({"kpt_shape": "many"}, {}, id="pose-unreadable"),
        pytest.param({"model_family": "yolo9"}, {"box_format": "xyxy"}, id="libre-yolo9"),
        pytest.param({"model_family": "yolox"}, {}, id="libre-yolox"),
    ],
)
def test_metadata_settles(metadata: dict[str, str], settings: dict[str, Any]) -> None:
    derived = derive(described(num_classes=80), facts([1, 84, 8400], **metadata))
    assert derived == settings
    assert set(derived) <= set(DEFAULTS)


def test_nothing_is_derived_without_a_graph() -> None:
    assert derive(described(), None) == {}


@pytest.mark.parametrize(
    ("metadata", "images"),
    [
        pytest.param({}, None, id="says-nothing"),
        pytest.param({**ULTRALYTICS, "batch": "1"}, None, id="raw"),
        pytest.param({**ULTRALYTICS, "end2end": "True", "batch": "1", "args": "{'nms': False}"}, None, id="v26"),
        pytest.param({**ULTRALYTICS, "batch": "4", "args": "{'batch': 4, 'nms': True}"}, 4, id="nms"),
        pytest.param({**ULTRALYTICS, "args": "{'nms': True}"}, 1, id="nms-without-batch"),
        pytest.param({**ULTRALYTICS, "batch": "0", "args": "{'nms': True}"}, 1, id="nms-with-nonsense"),
    ],
)
def test_nms_in_the_graph_is_right_for_the_batch_of_the_export(metadata: dict[str, str], images: int | None) -> None:
    assert engine_batch(facts([1, 300, 6], **metadata)) == images


def test_a_graph_of_another_task_is_advised_on() -> None:
    (line,) = advise(described(), facts([1, 116, 8400], stride="32", task="segment"))
    assert line.startswith("task: the graph was exported for instance_segmentation")
    assert advise(described(task="instance_segmentation"), facts([1, 116, 8400], stride="32", task="segment")) == []
    assert advise(described(), None) == []


@pytest.mark.parametrize("name", PRESETS)
def test_presets_state_settings_that_there_are(name: str) -> None:
    assert set(PRESETS[name]["detection"]) <= set(DEFAULTS)
    assert PRESETS[name]["detection"]["compare"] == "greater"


def test_names_hold_every_task() -> None:
    assert {f"yolo_{task}" for task in TASKS} | {"yolo"} == NAMES


@pytest.mark.parametrize(
    ("task", "graph", "settings", "expected"),
    [
        pytest.param("keypoint_detection", facts([1, 56, 8400]), {"num_classes": 1}, "", id="person"),
        pytest.param("keypoint_detection", facts([1, 68, 8400]), {"num_classes": 1}, "", id="hand-of-21-points"),
        pytest.param("keypoint_detection", facts([1, 300, 69]), {"num_classes": 1}, "", id="hand-end-to-end"),
        pytest.param("keypoint_detection", facts([1, 29, 8400]), {"num_classes": 1}, "and 51 behind", id="8x3-or-12x2"),
        pytest.param(
            "keypoint_detection",
            facts([1, 29, 8400]),
            {"num_classes": 1, "keypoints": [6, 4]},
            "detection.keypoints: expected [points, 2 or 3] (x, y, visibility), got [6, 4]; correct it",
            id="four-numbers-per-point",
        ),
        pytest.param(
            "instance_segmentation",
            facts([1, 116, 8400]),
            {"num_classes": 80},
            "task: expected an output of rank 4 (the masks' prototypes) for instance_segmentation, got [1, 116, 8400]",
            id="no-prototypes",
        ),
        pytest.param(
            "instance_segmentation", facts([1, 116, 8400], [1, 32, 160, 160]), {"num_classes": 80}, "", id="masks"
        ),
    ],
)
def test_what_the_tasks_need(task: str, graph: dict[str, Any], settings: dict[str, Any], expected: str) -> None:
    found = check(described(task=task, **settings), graph)
    assert len(found) == bool(expected)
    assert expected in "".join(found)
