"""Class names and class ids: the manifest's, and the graph's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.convertor.conversions import model_json, prepared
from tests.convertor.detectors import NCHW, detector, graph
from tests.convertor.packages import onnx_bytes, yolo_manifest


def test_names_in_the_graph_that_are_no_text_of_one_line_are_left_out(tmp_path: Path) -> None:
    """A lone surrogate could not even be written into model.json, which is UTF-8."""
    manifest = detector({}, num_classes=5)
    del manifest["detection"]["class_names"]
    embedded = r"{0: 'cat', 1: '\ud800', 2: 'a\nb', 3: '\x1b[31m', 4: 'été'}"
    head = {"output0": (1, 9, 21)}
    one = prepared(tmp_path, manifest, {"model.onnx": onnx_bytes(outputs=head, names=embedded)})
    assert model_json(one)["class_names"] == ["cat", "", "", "", "été"]


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


def test_names_are_in_the_order_of_ids_not_of_keys(tmp_path: Path) -> None:
    """As a document model's metadata really is."""
    embedded = "{0: 'Caption', 1: 'Footnote', 10: 'Title', 2: 'Formula', 3: 'List-item', 4: 'Page-footer', "
    embedded += "5: 'Page-header', 6: 'Picture', 7: 'Section-header', 8: 'Table', 9: 'Text'}"
    assert embedded_names(tmp_path, embedded, 11)[2] == "Formula"
    assert embedded_names(tmp_path, embedded, 11)[10] == "Title"


@pytest.mark.parametrize(
    ("embedded", "names"),
    [
        pytest.param("""{0: "it's", 1: 'say "hi"', 2: 'a, b'}""", ["it's", 'say "hi"', "a, b"], id="quotes and commas"),
        pytest.param("{0: '{x: 1}', 1: '[y]', 2: 'a: b'}", ["{x: 1}", "[y]", "a: b"], id="brackets and colons"),
        pytest.param(
            """{0: "traffic light's", 1: 'the "quoted" one', 2: 'naïve: ünïcødé 猫'}""",
            ["traffic light's", 'the "quoted" one', "naïve: ünïcødé 猫"],
            id="all of it",
        ),
        pytest.param("{2: '模型', 0: 'né', 1: 'Straße'}", ["né", "Straße", "模型"], id="any language, any order"),
        pytest.param('{"10": "k", "9": "j", "0": "a"}', None, id="ids with gaps"),
        pytest.param('{"2": "c", "0": "a", "1": "b"}', ["a", "b", "c"], id="JSON, as TorchScript has it"),
    ],
)
def test_names_as_exporters_write_them(tmp_path: Path, embedded: str, names: list[str] | None) -> None:
    assert embedded_names(tmp_path, embedded, 3) == (names or [])


def test_b128_the_manifests_names_win_over_the_graphs(tmp_path: Path) -> None:
    eleven = [f"class {number}" for number in range(11)]
    ten = str(dict(enumerate(eleven[:10])))
    files = {"model.onnx": onnx_bytes(outputs={"output0": (1, 15, 21)}, names=ten)}
    manifest = yolo_manifest(detection={"layout": "yolo", "num_classes": 11, "class_names": eleven})
    assert model_json(prepared(tmp_path, manifest, files))["class_names"] == eleven
    # Ten names are none for eleven classes.
    del manifest["detection"]["class_names"]
    assert model_json(prepared(tmp_path, manifest, files))["class_names"] == []


def embedded_names(tmp_path: Path, embedded: str, count: int) -> list[str]:
    """The names that model.json gets from a graph's metadata, for a manifest that names none."""
    files = {"model.onnx": onnx_bytes(outputs={"output0": (1, 4 + count, 21)}, names=embedded)}
    manifest = yolo_manifest(detection={"layout": "yolo", "num_classes": count})
    return model_json(prepared(tmp_path, manifest, files))["class_names"]
