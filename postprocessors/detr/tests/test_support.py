"""What convert refuses, derives and advises of a DETR package before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from postprocessors.contract import DecoderConfig
from postprocessors.detr.decode import create
from postprocessors.detr.layouts import MEANINGS
from postprocessors.detr.support import DEFAULTS, NAMES, PRESETS, advise, check, derive

ULTRALYTICS = {"author": "Ultralytics", "version": "8.4.190"}


def facts(*shapes: list[Any], metadata: dict[str, str] | None = None) -> dict[str, Any]:
    outputs = [{"name": f"output{i}", "dtype": "float32", "shape": shape} for i, shape in enumerate(shapes)]
    return {"outputs": outputs, "metadata": metadata or {}}


def manifest(outputs: dict[str, Any] | None = None, layout: str = "detr", **settings: Any) -> dict[str, Any]:
    return {
        "settings": {**DEFAULTS, **settings},
        "outputs": outputs or {},
        "detection": {"layout": layout},
        "stage_type": None,
    }


PAIR = facts([1, 100, 91], [1, 100, 4])
ROWS = facts([1, 300, 6])
POST = facts([1, 300], [1, 300, 4], [1, 300])


@pytest.mark.parametrize(
    ("graph", "settings"),
    [
        pytest.param(PAIR, {"num_classes": 91}, id="pair"),
        pytest.param(PAIR, {"num_classes": 90}, id="no-object-column"),
        pytest.param(PAIR, {}, id="pair-without-a-count"),
        pytest.param(ROWS, {"num_classes": 80}, id="rows"),
        pytest.param(ROWS, {"num_classes": 2}, id="rows-or-two-classes"),
        pytest.param(facts(["batch", 300, 84]), {"num_classes": 80}, id="scores"),
        pytest.param(facts([1, 300, "width"]), {"num_classes": 80}, id="open-axis-is-seen-at-load"),
        pytest.param(POST, {"num_classes": 80}, id="post-processed"),
        pytest.param(facts([]), {}, id="open-rank-is-seen-at-load"),
        pytest.param(None, {}, id="graph-unknown"),
    ],
)
def test_nothing_to_refuse(graph: dict[str, Any] | None, settings: dict[str, Any]) -> None:
    assert check(manifest(**settings), graph) == []


@pytest.mark.parametrize(
    ("graph", "settings", "expected"),
    [
        pytest.param(PAIR, {"num_classes": 8}, "expected 8 or 9 class columns .*got 91 from the graph", id="B41"),
        pytest.param(ROWS, {}, "expected the number of classes", id="rows-without-a-count"),
        pytest.param(POST, {}, "expected the number of classes", id="post-processed-without-a-count"),
        pytest.param(facts([1, 300, 84]), {"num_classes": 8}, r"expected one output \[B, Q, 6\] or \[B, Q, 12\]"),
        pytest.param(facts([1, 300, 84]), {"num_classes": 80, "end_to_end": True}, r"expected one output \[B, Q, 6\]"),
        pytest.param(ROWS, {"num_classes": 80, "end_to_end": False}, r"expected one output \[B, Q, 84\]"),
        pytest.param(facts([300, 6]), {"num_classes": 80}, "expected one output", id="no-batch-axis"),
    ],
)
def test_what_the_graph_contradicts(graph: dict[str, Any], settings: dict[str, Any], expected: str) -> None:
    (problem,) = check(manifest(**settings), graph)
    assert problem.startswith("detection.num_classes: ")
    with pytest.raises(AssertionError, match=expected):
        raise AssertionError(problem)


@pytest.mark.parametrize("named", sorted(map(sorted, MEANINGS)))
def test_an_adapter_that_the_decoder_takes(named: list[str]) -> None:
    outputs = {meaning: {"tensor": index} for index, meaning in enumerate(named)}
    assert check(manifest(outputs), PAIR) == []
    create(DecoderConfig(DEFAULTS, output_names=("a", "b", "c"), outputs=outputs))


def test_half_an_adapter() -> None:
    (problem,) = check(manifest({"logits": {"tensor": 0}}), PAIR)
    assert problem.startswith("outputs: expected boxes, logits or boxes, scores or boxes, classes, scores or boxes")


@pytest.mark.parametrize(
    ("settings", "graph", "lines"),
    [
        pytest.param({"num_classes": 90}, PAIR, 1, id="one-column-more"),
        pytest.param({"num_classes": 90, "use_softmax": True}, PAIR, 0, id="softmax"),
        pytest.param({"num_classes": 90, "background_class": 90}, PAIR, 0, id="background"),
        pytest.param({"num_classes": 91}, PAIR, 0, id="as-many"),
        pytest.param({}, PAIR, 1, id="no-count"),
        pytest.param({"num_classes": 90}, None, 0, id="graph-unknown"),
    ],
)
def test_a_column_that_may_be_no_object(settings: dict[str, Any], graph: dict[str, Any] | None, lines: int) -> None:
    found = advise(manifest(**settings), graph)
    assert [line.partition(":")[0] for line in found] == ["detection.use_softmax"] * lines


@pytest.mark.parametrize(
    ("metadata", "classes", "shape", "expected"),
    [
        pytest.param({**ULTRALYTICS, "head": "RTDETRDecoder"}, 2, [1, 300, 6], {"end_to_end": True}, id="rows"),
        pytest.param({**ULTRALYTICS, "head": "RTDETRDecoder"}, 80, [1, 300, 6], {"end_to_end": True}, id="rows-of-80"),
        pytest.param(ULTRALYTICS, 2, [1, 300, 6], {"end_to_end": False}, id="before-8.4.190"),
        pytest.param(ULTRALYTICS, 80, [1, 300, 84], {}, id="the-width-tells"),
        pytest.param({**ULTRALYTICS, "head": "RTDETRDecoder"}, 2, [1, 300, 8], {}, id="another-width"),
        pytest.param({}, 2, [1, 300, 6], {}, id="no-metadata"),
    ],
)
def test_derived_from_metadata(
    metadata: dict[str, str], classes: int, shape: list[int], expected: dict[str, Any]
) -> None:
    assert derive(manifest(num_classes=classes), facts(shape, metadata=metadata)) == expected


@pytest.mark.parametrize(
    ("layout", "settings", "lines"),
    [
        pytest.param("yolos", {}, 1, id="by-layout"),
        pytest.param("yolos_object_detection", {}, 1, id="by-the-long-name"),
        pytest.param("yolos", {"use_softmax": True}, 0, id="told"),
        pytest.param("yolos", PRESETS["hf-yolos"]["detection"], 0, id="preset"),
        pytest.param("rt_detr", {}, 0, id="another"),
    ],
)
def test_yolos_is_known_by_its_name(layout: str, settings: dict[str, Any], lines: int) -> None:
    assert layout in NAMES
    found = check(manifest(layout=layout, **settings), None)
    assert [line.partition(":")[0] for line in found] == ["detection.use_softmax"] * lines


def test_a_preset_says_only_what_the_family_reads() -> None:
    assert all(set(preset["detection"]) <= set(DEFAULTS) for preset in PRESETS.values())


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({**ULTRALYTICS, "head": "Detect"}, id="by-the-head"),
        pytest.param({**ULTRALYTICS, "end2end": "True"}, id="by-end2end"),
    ],
)
def test_a_yolo_graph_is_refused(metadata: dict[str, str]) -> None:
    (problem,) = check(manifest(num_classes=80), facts([1, 300, 6], metadata=metadata))
    assert problem.startswith("detection.layout: expected yolo for this graph of Ultralytics, got detr")


@pytest.mark.parametrize(
    ("layout", "settings", "lines"),
    [
        pytest.param("detr", {}, 1, id="no-count"),
        pytest.param("detr", {"use_softmax": True}, 0, id="said"),
        pytest.param("rt_detr", {}, 0, id="no-column-of-nothing"),
    ],
)
def test_a_column_of_no_object_that_no_count_tells(layout: str, settings: dict[str, Any], lines: int) -> None:
    advice = advise(manifest(layout=layout, **settings), facts([1, 100, 92], [1, 100, 4]))
    assert len(advice) == lines
    assert all(line.startswith("detection.use_softmax: the graph has 92 class columns") for line in advice)
