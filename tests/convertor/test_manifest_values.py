"""manifest.json: every key and every wrong value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.convertor.manifests import STAGE, parse, refusals


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
    "boxes_normalized": BAD_BOOLEAN,
    "channels_first": BAD_BOOLEAN,
    "objectness": BAD_BOOLEAN,
    "multi_label": BAD_BOOLEAN,
    "clip_before_nms": BAD_BOOLEAN,
    "keypoints": (17, [17], [17, 3, 1], [17.0, 3], [0, 3], [17, "3"], [True, 3], [1001, 3]),
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
    "preset": BAD_TEXT,
    "resize": ("crop", True, 1),
    "resize_dtype": ("float16", 32, True),
    "letterbox": ("center", True, 1),
    "letterbox_margin": (-1, 1025, 4.0, "4", True),
    "resize_rounding": ("ceil", True, 1),
    "pad_value": (-1, 256, 114.0, "114", True, [114, 114, 114]),
    "box_gain": ("rounded", True, 1.0),
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
    ("serving.gpus", None, (0, [], [-1], [256], ["0"], [True])),
    ("serving.preferred_batch_sizes", None, (8, [], [0], [1025], ["8"], [True])),
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
