"""manifest.json: what is no manifest, what nobody reads, and lines for all of it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from convertor.errors import RefusedError
from convertor.manifest.parse import parse_manifest
from tests.convertor.manifests import STAGE, parse, refusals


def test_an_empty_manifest_is_a_dlr_anomaly_model() -> None:
    manifest = parse({})
    assert (manifest.runtime, manifest.task, manifest.device) == ("dlr", "anomaly", "auto")
    assert (manifest.artifact, manifest.model_name, manifest.stage_type) == (None, None, None)
    assert (manifest.class_names, manifest.pixel_classes, manifest.normal_ids) == ((), (), None)
    assert (manifest.detection, manifest.stage, manifest.outputs) == ({}, {}, {})
    assert (manifest.execution, manifest.serving, manifest.dataset_size, manifest.warnings) == ({}, {}, None, ())


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"", "not JSON", id="empty"),
        pytest.param(b"{", "not JSON", id="cut short"),
        pytest.param(b'{"task": "anomaly",}', "not JSON", id="trailing comma"),
        pytest.param(b"[]", "expected a JSON object, got []", id="list"),
        pytest.param(b"null", "expected a JSON object, got null", id="null"),
        pytest.param('{"task": "anomaly"}'.encode("utf-16"), "not UTF-8", id="UTF-16 with mark"),
        pytest.param('{"model_name": "mädchen"}'.encode("latin-1"), "not UTF-8 (byte 17)", id="Latin-1"),
        pytest.param(b'{"detection": {"score_threshold": NaN}}', "NaN is not a JSON number", id="NaN"),
        pytest.param(b'{"x": -Infinity}', "-Infinity is not a JSON number", id="-Infinity"),
        pytest.param(b"[" * 200_000, "nested too deeply", id="deep list"),
        pytest.param(b'{"a":' * 200_000, "nested too deeply", id="deep object"),
        pytest.param(b'{"x": ' + b"9" * 5000 + b"}", "not JSON", id="a number of 5000 digits"),
    ],
)
def test_what_is_no_manifest_is_one_line(data: bytes, expected: str) -> None:
    (line,) = refusals(data)
    assert line.startswith("manifest.json: ")
    assert expected in line


def test_utf_16_without_a_mark_is_refused() -> None:
    assert refusals('{"task": "anomaly"}'.encode("utf-16-le"))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b'\xef\xbb\xbf{"task": "anomaly"}', id="byte order mark"),
        pytest.param(b'{\r\n "task": "anomaly"\r\n}\r\n', id="CRLF"),
        pytest.param(b'\xef\xbb\xbf{\r\n"task":\r\n"anomaly"}', id="both, as Windows tools write it"),
    ],
)
def test_what_windows_tools_write_is_read(data: bytes) -> None:
    assert parse_manifest(data) == parse({})


def test_every_problem_is_told_at_once() -> None:
    manifest = {
        "runtime": 1,
        "task": "object_detection",
        "detection": {"num_classes": 0, "top_k": "many"},
        "model_graph": {"stages": [{"normalize": 1}, {}], "model_graph_type": "x"},
        "serving": {"instances": 0},
    }
    lines = refusals(json.dumps(manifest).encode())
    assert [line.split(": ")[1] for line in lines] == [
        "runtime",
        "detection.num_classes",
        "detection.top_k",
        "model_graph.model_graph_type",
        "model_graph.stages",
        f"{STAGE}.normalize",
        "serving.instances",
    ]


def test_at_most_twenty_problems_are_printed() -> None:
    outputs = {f"meaning{number}": number for number in range(50)}
    with pytest.raises(RefusedError) as caught:
        parse({"outputs": outputs})
    lines = caught.value.lines()
    assert len(lines) == 21
    assert lines[-1] == "... and 30 more"


@pytest.mark.parametrize(
    ("manifest", "warning"),
    [
        pytest.param({"taks": "x"}, "taks: unknown key, ignored; did you mean task?", id="top, distance 2"),
        pytest.param({"runtimes": "x"}, "runtimes: unknown key, ignored; did you mean runtime?", id="top, distance 1"),
        pytest.param({"runtime_artefacts": 1}, "did you mean runtime_artifact?", id="top, a long key"),
        pytest.param({"rruuntimee": "x"}, None, id="top, distance 3"),
        pytest.param({"created_by": "x", "id": 1, "version": 2, "hyper": {}}, None, id="top, not ours"),
        pytest.param(
            {"serving": {"instanses": 2}},
            "serving.instanses: unknown key, ignored; did you mean instances?",
            id="serving",
        ),
        pytest.param(
            {"serving": {"zzz": 2}}, "serving.zzz: unknown key, ignored; known keys: profile", id="serving, far"
        ),
        pytest.param({"execution": {"scheduler": "x"}}, "did you mean scheduler_id?", id="execution"),
        pytest.param(
            {"outputs": {"map": {"tensor": 0, "activate": "none"}}},
            "outputs.map.activate: unknown key, ignored; did you mean activation?",
            id="outputs",
        ),
        pytest.param(
            {"model_graph": {"stages": [{"treshold": 0.7}]}},
            f"{STAGE}.treshold: unknown key, ignored; did you mean threshold?",
            id="stage, near",
        ),
        pytest.param(
            {"model_graph": {"stages": [{"calibrated": True, "id": 7, "codename": "x"}]}}, None, id="stage, not ours"
        ),
        pytest.param({"dataset": {"name": "x", "split": 0.8}, "model_graph": {"lr": 1}}, None, id="dataset, not ours"),
    ],
)
def test_unknown_keys_are_named_where_a_typing_error_is_likely(manifest: dict[str, Any], warning: str | None) -> None:
    warnings = parse(manifest).warnings
    assert len(warnings) == (warning is not None)
    assert all(line.startswith("manifest.json: ") and warning and warning in line for line in warnings)


def test_a_detection_key_that_is_not_known_is_left_to_the_decoder() -> None:
    manifest = parse({"task": "object_detection", "detection": {"iou_treshold": 0.4, "reach": [7], "depth": None}})
    assert manifest.further == {"iou_treshold": 0.4, "reach": [7]}
    assert (manifest.detection, manifest.warnings) == ({}, ())


def test_a_stage_key_of_an_anomaly_model_that_is_not_known_is_left_to_the_decoder() -> None:
    stage = {"threshold": 0.5, "reach": [7], "depth": None}
    manifest = parse({"model_graph": {"stages": [stage]}, "detection": {"more": 1}})
    assert (manifest.further, manifest.stage) == ({"reach": [7]}, {"threshold": 0.5})


def test_an_unknown_key_cannot_write_control_characters_to_the_terminal() -> None:
    (line,) = parse({"serving": {"\x1b[2J\n\ud800": 1}}).warnings
    assert line.isprintable()


def test_a_key_given_twice_is_named() -> None:
    manifest = parse_manifest(b'{"device": "cpu", "device": "gpu"}')
    assert manifest.device == "gpu"
    assert manifest.warnings == ("manifest.json: device: is there twice in one object, the last one counts",)


def test_a_detection_block_of_an_anomaly_model_is_not_read_but_named() -> None:
    manifest = parse({"detection": {"score_threshold": "high", "unknown": 1}})
    assert manifest.detection == {}
    (line,) = manifest.warnings
    assert line.startswith("manifest.json: detection: not read, because task is anomaly (the default)")


@pytest.mark.parametrize(
    ("task", "manifest"),
    [
        pytest.param("anomaly", {"model_graph": {"stages": [{"num_classes": "many"}]}}, id="detection keys of a stage"),
        pytest.param("object_detection", {"model_graph": {"pixel_level_classes": 5}}, id="pixel classes of a detector"),
        pytest.param("object_detection", {"dataset": {"image_width": "any"}}, id="dataset size of a detector"),
        pytest.param("object_detection", {"model_graph": {"stages": [{"class_normal_ids": "1"}]}}, id="normal ids"),
        pytest.param("anomaly", {"model_graph": {"bbox_level_classes": 5}}, id="never read"),
    ],
)
def test_only_keys_that_are_read_are_type_checked(task: str, manifest: dict[str, Any]) -> None:
    assert dataclasses.replace(parse({"task": task, **manifest}), further={}) == parse({"task": task})


@pytest.mark.parametrize(("word", "expected"), [("auto", "auto"), ("cpu", "cpu"), ("gpu", "gpu"), ("cuda", "gpu")])
def test_device_words(word: str, expected: str) -> None:
    assert parse({"device": word}).device == expected
