"""manifest.json: every key, every wrong value, every spelling that is out there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from convertor.errors import RefusedError
from convertor.manifest.parse import Manifest, parse_manifest
from tests.convertor.packages import anomaly_manifest

STAGE = "model_graph.stages[0]"


def parse(value: Any) -> Manifest:
    return parse_manifest(json.dumps(value).encode())


def refusals(data: bytes) -> list[str]:
    with pytest.raises(RefusedError) as caught:
        parse_manifest(data)
    return list(caught.value.problems)


def put(path: str, value: Any, task: str | None) -> dict[str, Any]:
    """A manifest in which only `path` is set; `[0]` makes a list of one."""
    manifest: dict[str, Any] = {} if task is None else {"task": task}
    here: Any = manifest
    *parents, last = path.split(".")
    for parent in parents:
        here = here.setdefault(parent[:-3], [{}])[0] if parent.endswith("[0]") else here.setdefault(parent, {})
    here[last] = value
    return manifest


BAD_TEXT = (5, "", True, ["x"], {}, "two\nlines", "\ud800")
BAD_WHOLE = (0, -1, 1.5, "3", True, [1], 10**400)
BAD_FRACTION = (-0.01, 1.01, "0.5", True, [0.5], 10**400)
BAD_BOOLEAN = (1, 0, "true", "yes", [], {})
BAD_BLOCK = (5, "x", [], True)
BAD_NAMES = (
    "cat",
    5,
    [1],
    [""],
    ["a", None],
    ["two\nlines"],
    {"0": 5},
    {"cat": "0"},
    {"-1": "x"},
    {"1.0": "x"},
    {"65536": "x"},
)
BAD_IDS = (1, "1", [-1], ["1"], [1.5], [True], [65_536])
BAD_SIZE = (0, -1, 65_537, "640", 640.0, [640], [1, 2, 3], [640, 0], True)
DETECTION = {
    "layout": BAD_TEXT,
    "num_classes": (*BAD_WHOLE, 65_537),
    "class_names": BAD_NAMES,
    "score_threshold": BAD_FRACTION,
    "iou_threshold": BAD_FRACTION,
    "top_k": (*BAD_WHOLE, 100_001),
    "max_det": (*BAD_WHOLE, 100_001),
    "use_softmax": BAD_BOOLEAN,
    "background_class": (1.5, "0", True, [0], 65_536),
    "class_agnostic": BAD_BOOLEAN,
    "compare": (">", "", 1, ["greater"]),
    "classes": ([], 1, "cat", [1.5], [-1], [None], [True]),
    "class_thresholds": ([0.5], 0.5, {"cat": 1.5}, {"cat": "0.5"}, {"cat": None}),
    "network_input": BAD_SIZE,
    "box_format": ("xywh", 1, ["xyxy"]),
    "end_to_end": BAD_BOOLEAN,
}
STAGE_KEYS = {
    "image_width": (0, 1.5, "640", True, 65_537),
    "image_height": (0, 1.5, "640", True, 65_537),
    "input_shape": (640, [3, 640, 640], [1, 3, 640, 640.0], ["batch", 3, 64, 64], [True, 3, 64, 64], [1, 3, 64, 64, 1]),
    "image_range_scale": BAD_BOOLEAN,
    "normalize": BAD_BOOLEAN,
    "mean": (0.5, [], ["0.5"], [True], [0.1] * 5, [1e7]),
    "std": (0.5, [], [0, 1, 1], [-1, 1, 1], ["1"], [1] * 5),
    "interpolation": ("AREA", "bilinear", 2),
    "preserve_aspect": BAD_BOOLEAN,
    "channel_order": ("RGB", "grb", 1),
    "type": BAD_TEXT,
    "stage_type": BAD_TEXT,
}
BAD_VALUES: list[tuple[str, str | None, tuple[Any, ...]]] = [
    ("runtime", None, BAD_TEXT),
    ("runtime_artifact", None, BAD_TEXT),
    ("device", None, ("GPU", "tpu", 0, ["cpu"], "")),
    ("task", None, BAD_TEXT),
    ("model_name", None, BAD_TEXT),
    ("class_names", None, BAD_NAMES),
    *((key, None, BAD_BLOCK) for key in ("dataset", "outputs", "model_graph", "execution", "serving")),
    ("detection", "object_detection", BAD_BLOCK),
    ("dataset.class_names", None, BAD_NAMES),
    ("dataset.image_width", None, (0, "640", 1.5, True)),
    ("dataset.image_height", None, (0, "480", 1.5, True)),
    *((f"detection.{key}", "object_detection", bad) for key, bad in DETECTION.items()),
    # A stage may say for itself what `detection` says for all.
    *((f"{STAGE}.{key}", "object_detection", bad) for key, bad in DETECTION.items()),
    *((f"{STAGE}.{key}", task, bad) for key, bad in STAGE_KEYS.items() for task in (None, "object_detection")),
    (f"{STAGE}.threshold", "object_detection", BAD_FRACTION),
    (f"{STAGE}.threshold", None, ("0.5", True, [0.5], 1e10, 10**400)),
    (f"{STAGE}.class_normal_ids", None, BAD_IDS),
    ("model_graph.model_graph_type", None, (*BAD_TEXT, "two_stage_model_graph")),
    ("model_graph.stages", None, ({}, "x", [5], [None], [{}, {}], [[]])),
    ("model_graph.image_level_classes", None, BAD_BLOCK),
    ("model_graph.image_level_classes.names", None, ("x", [1], [""])),
    ("model_graph.image_level_classes.normal_ids", None, BAD_IDS),
    ("model_graph.pixel_level_classes", None, BAD_BLOCK),
    ("model_graph.pixel_level_classes.names", None, ("x", [1], [""])),
    ("outputs.boxes", None, (0, "boxes", [], None)),
    ("outputs.boxes.tensor", None, (-1, 1.5, True, "", [0], None)),
    ("outputs.boxes.activation", None, ("relu", 1, True)),
    *((f"execution.{name}_id", None, BAD_TEXT) for name in ("preprocessor", "buffer_strategy", "scheduler")),
    *((f"execution.{name}_id", None, BAD_TEXT) for name in ("postprocessor", "engine_plugin")),
    ("execution.allow_compatibility_fallback", None, BAD_BOOLEAN),
    ("serving.profile", None, ("Capture", 1, "")),
    ("serving.max_batch_size", None, (-1, 1025, "8", 1.5, True)),
    ("serving.instances", None, (*BAD_WHOLE, 257)),
    ("serving.queue_delay_us", None, (-1, 1.5, "100", True)),
    ("serving.warmup", None, BAD_BOOLEAN),
    ("serving.threads", None, (*BAD_WHOLE, 1025)),
]


@pytest.mark.parametrize(
    ("path", "task", "value"),
    [
        pytest.param(path, task, value, id=f"{path}={json.dumps(value)[:40]}{'' if task is None else ',' + task}")
        for path, task, values in BAD_VALUES
        for value in values
    ],
)
def test_a_wrong_value_is_one_line_with_what_was_expected_and_got(path: str, task: str | None, value: Any) -> None:
    lines = refusals(json.dumps(put(path, value, task)).encode())
    (line,) = [line for line in lines if line.startswith(f"manifest.json: {path}")]
    assert "expected" in line
    assert "got" in line
    assert "; " in line
    assert len(line) < 300
    assert line.isprintable()


NULLABLE = [(path, task) for path, task, _ in BAD_VALUES if not path.startswith("outputs")]


@pytest.mark.parametrize(("path", "task"), sorted({(path, task or "anomaly") for path, task in NULLABLE}))
def test_null_counts_as_absent(path: str, task: str) -> None:
    assert parse(put(path, None, task)) == parse({"task": task})


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


def test_unknown_detection_key() -> None:
    (line,) = parse({"task": "object_detection", "detection": {"iou_treshold": 0.4}}).warnings
    assert line == "manifest.json: detection.iou_treshold: unknown key, ignored; did you mean iou_threshold?"


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
    assert parse({"task": task, **manifest}) == parse({"task": task})


@pytest.mark.parametrize(("word", "expected"), [("auto", "auto"), ("cpu", "cpu"), ("gpu", "gpu"), ("cuda", "gpu")])
def test_device_words(word: str, expected: str) -> None:
    assert parse({"device": word}).device == expected


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        pytest.param({"class_names": ["a", "b"]}, ("a", "b"), id="list"),
        pytest.param({"class_names": {"1": "b", "0": "a"}}, ("a", "b"), id="by id, any order"),
        pytest.param({"class_names": {"2": "c"}}, ("", "", "c"), id="by id, with gaps"),
        pytest.param(
            {"class_names": ["模型", "né", "👩\u200d🔧", "no\u00a0break"]},
            ("模型", "né", "👩\u200d🔧", "no\u00a0break"),
            id="any language",
        ),
        pytest.param({"dataset": {"class_names": ["d"]}}, ("d",), id="dataset"),
        pytest.param({"class_names": ["t"], "dataset": {"class_names": ["d"]}}, ("t",), id="top before dataset"),
        pytest.param({"class_names": ["t"], "detection": {"class_names": ["x"]}}, ("x",), id="detection before top"),
        pytest.param({"class_names": ["t"], "detection": {"class_names": []}}, ("t",), id="an empty list says nothing"),
        pytest.param({"class_names": ["t"], "detection": {"class_names": {}}}, ("t",), id="an empty object neither"),
        pytest.param(
            {"detection": {"class_names": ["x"]}, "model_graph": {"stages": [{"class_names": ["s"]}]}},
            ("s",),
            id="stage before detection",
        ),
    ],
)
def test_class_names(manifest: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert parse({"task": "object_detection", **manifest}).class_names == expected


def test_detection_is_merged_into_a_stage_that_does_not_say_otherwise() -> None:
    manifest = parse(
        {
            "task": "object_detection",
            "detection": {"layout": "yolo", "top_k": 100, "max_det": 50},
            "model_graph": {"stages": [{"top_k": 7, "iou_threshold": 0.3}]},
        }
    )
    assert manifest.detection == {"layout": "yolo", "top_k": 7, "max_det": 50, "iou_threshold": 0.3}


@pytest.mark.parametrize("key", ["type", "stage_type"])
def test_both_spellings_of_the_stage_type(key: str) -> None:
    assert parse({"model_graph": {"stages": [{key: "mochi"}]}}).stage_type == "mochi"


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        pytest.param({}, None, id="nothing said"),
        pytest.param({"stages": [{"class_normal_ids": [0]}]}, (0,), id="stage"),
        pytest.param({"image_level_classes": {"normal_ids": [1]}}, (1,), id="classes"),
        pytest.param({"image_level_classes": {"names": ["anomaly", "normal"]}}, (1,), id="by name"),
        pytest.param({"image_level_classes": {"names": ["good", "bad"]}}, None, id="names that say nothing"),
        pytest.param(
            {"stages": [{"class_normal_ids": [2]}], "image_level_classes": {"normal_ids": [1]}}, (2,), id="stage first"
        ),
        pytest.param(
            {"image_level_classes": {"names": ["normal", "x"], "normal_ids": [1]}}, (1,), id="ids before names"
        ),
    ],
)
def test_normal_ids(graph: dict[str, Any], expected: tuple[int, ...] | None) -> None:
    assert parse({"model_graph": graph}).normal_ids == expected


def test_a_real_anomaly_manifest_parses_unchanged() -> None:
    """As in a public write-up of a real package: no runtime, no task, a code name as stage type, a dataset block."""
    manifest = parse(
        {
            "model_graph": {
                "model_graph_type": "single_stage_model_graph",
                "stages": [
                    {
                        "type": "mochi",
                        "input_shape": [1, 3, 224, 224],
                        "image_range_scale": True,
                        "normalize": True,
                        "threshold": 0.702,
                        "class_normal_ids": [1],
                        "calibrated": True,
                        "seg_threshold": None,
                    }
                ],
                "image_level_classes": {"names": ["anomaly", "normal"], "normal_ids": [1]},
                "pixel_level_classes": {"names": [], "normal_ids": []},
            },
            "dataset": {"image_width": 1280, "image_height": 720, "name": "x", "manifest": "s3://b/x.manifest"},
            "training": {"epochs": 30},
            "compilable_models": [{"filename": "mochi.pt", "data_input_config": {"input": [1, 3, 224, 224]}}],
        }
    )
    assert (manifest.runtime, manifest.task, manifest.stage_type) == ("dlr", "anomaly", "mochi")
    assert manifest.normal_ids == (1,)
    assert manifest.stage["threshold"] == 0.702
    assert manifest.stage["normalize"] is True
    assert manifest.dataset_size == (720, 1280)
    assert manifest.warnings == ()


@pytest.mark.parametrize(
    ("layout", "detection"),
    [
        pytest.param(
            "yolo", {"num_classes": 80, "score_threshold": 0.25, "iou_threshold": 0.45, "network_input": 640}, id="yolo"
        ),
        pytest.param(
            "rf_detr",
            {"layout": "rf_detr", "num_classes": 90, "score_threshold": 0.5, "top_k": 300, "network_input": 560},
            id="rf_detr",
        ),
    ],
)
def test_the_detection_manifests_of_the_portal_parse_unchanged(layout: str, detection: dict[str, Any]) -> None:
    side = detection["network_input"]
    stage = {
        "stage_type": f"{layout}_object_detection",
        "threshold": detection["score_threshold"],
        "image_width": side,
        "image_height": side,
        "image_range_scale": True,
        "normalize": False,
        "input_shape": [1, 3, side, side],
    }
    detection["class_names"] = ["person", "bicycle"]
    manifest = parse(
        {
            "runtime": "onnx",
            "runtime_artifact": "model.onnx",
            "task": "object_detection",
            "detection": detection,
            "model_graph": {"model_graph_type": "single_stage_model_graph", "stages": [stage]},
        }
    )
    assert manifest.detection == detection
    assert manifest.stage == stage
    assert manifest.stage_type == f"{layout}_object_detection"
    assert manifest.warnings == ()


def test_an_anomaly_manifest_of_the_tests_has_no_warnings() -> None:
    assert parse(anomaly_manifest()).warnings == ()


def test_the_sizes_of_a_dataset_count_only_together() -> None:
    assert parse({"dataset": {"image_width": 640}}).dataset_size is None


def test_an_output_keeps_its_activation_and_gets_none_by_default() -> None:
    outputs = parse({"outputs": {"boxes": {"tensor": 1}, "logits": {"tensor": "l", "activation": "sigmoid"}}}).outputs
    assert outputs == {
        "boxes": {"tensor": 1, "activation": "none"},
        "logits": {"tensor": "l", "activation": "sigmoid"},
    }
