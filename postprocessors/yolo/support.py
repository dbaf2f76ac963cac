"""What the tool must know of YOLO heads. Standard library only; loaded by file path, never at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

TASKS = frozenset({"object_detection", "instance_segmentation", "keypoint_detection", "oriented_detection"})
NAMES = frozenset({"yolo", *(f"yolo_{task}" for task in TASKS)})
DEFAULTS: dict[str, Any] = {
    "num_classes": None,
    "score_threshold": 0.25,
    "iou_threshold": 0.45,
    "max_det": 300,
    "class_agnostic": False,
    "multi_label": False,
    "clip_before_nms": False,
    "compare": "greater_equal",
    "classes": None,
    "class_thresholds": None,
    # None: as outputs.py, heads.py and boxes.py recognise it.
    "box_format": None,
    "boxes_normalized": None,
    "end_to_end": None,
    "objectness": None,
    "channels_first": None,
    "keypoints": None,
}

_LETTERBOX: dict[str, Any] = {
    "preserve_aspect": True,
    "letterbox": "centre",
    "resize_rounding": "half_even",
    "pad_value": 114,
    "interpolation": "linear",
    "channel_order": "rgb",
    "image_range_scale": True,
    "normalize": False,
    "box_gain": "exact",
}
_STRETCH: dict[str, Any] = {
    "resize": "stretch",
    "interpolation": "linear",
    "image_range_scale": True,
    "normalize": True,
}
_GREATER: dict[str, Any] = {"score_threshold": 0.25, "iou_threshold": 0.7, "max_det": 300, "compare": "greater"}
# LibreYOLO cuts boxes off at the image before it suppresses, and its suppression is Ultralytics' of old.
_LIBRE: dict[str, Any] = {**_GREATER, "iou_threshold": 0.45, "clip_before_nms": True}
# Each vendor's own predict(), as of the version named; LibreYOLO 1.6 for those without.
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "ultralytics": {"stage": _LETTERBOX, "detection": _GREATER},
    "ultralytics-8.3": {"stage": {**_LETTERBOX, "box_gain": "unrounded"}, "detection": _GREATER},
    "yolov5": {
        "stage": {**_LETTERBOX, "box_gain": "unrounded_pad"},
        "detection": {**_GREATER, "iou_threshold": 0.45},
    },
    "yolox": {
        "stage": {
            **_LETTERBOX,
            "letterbox": "top_left",
            "resize_rounding": "floor",
            "interpolation": "antialias",
            "channel_order": "bgr",
            "image_range_scale": False,
            "box_gain": "unrounded",
        },
        "detection": _LIBRE,
    },
    "yolo-nas": {
        "stage": {**_LETTERBOX, "interpolation": "antialias", "letterbox_margin": 4, "box_gain": "unrounded_gain"},
        "detection": _LIBRE,
    },
    "libre-yolo9": {
        "stage": {**_LETTERBOX, "letterbox": "top_left", "resize_rounding": "floor", "box_gain": "unrounded"},
        "detection": {**_LIBRE, "box_format": "xyxy", "multi_label": True},
    },
    "picodet": {"stage": _STRETCH, "detection": {**_LIBRE, "box_format": "xyxy", "multi_label": True}},
    "rtmdet": {
        "stage": {
            **_LETTERBOX,
            "letterbox": "top_left",
            "resize_rounding": "floor",
            "interpolation": "antialias",
            "channel_order": "bgr",
            "normalize": True,
            "box_gain": "unrounded",
        },
        "detection": {**_LIBRE, "box_format": "xyxy"},
    },
    "ppyoloe": {"stage": _STRETCH, "detection": _LIBRE},
}

# What `outputs` may name: a head, or boxes with scores, and with classes and a count where the graph has chosen.
_MEANINGS = ("boxes", "scores", "classes", "count")
# What Ultralytics' metadata calls the tasks that this family decodes.
_GRAPH_TASKS = {
    "detect": "object_detection",
    "segment": "instance_segmentation",
    "pose": "keypoint_detection",
    "obb": "oriented_detection",
}
# LibreYOLO's families whose one tensor holds corners.
_CORNER_FAMILIES = frozenset({"yolo9", "picodet", "rtmdet"})


def derive(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return settings that the graph's metadata states; what the manifest says itself goes before them.

    Ultralytics (8.4) writes `end2end`, and `nms` into `args`: a graph with NMS has the same rows, but `end2end` False.
    """
    del manifest
    metadata: Mapping[str, str] = (facts or {}).get("metadata") or {}
    settings: dict[str, Any] = {}
    if metadata.get("model_family") in _CORNER_FAMILIES:
        settings["box_format"] = "xyxy"
    if "end2end" in metadata and metadata.get("head") != "RTDETRDecoder":
        rows = metadata["end2end"] == "True" or "'nms': True" in metadata.get("args", "")
        settings["end_to_end"] = rows
        if not rows:
            settings["objectness"] = False
    shape = _numbers(metadata.get("kpt_shape", ""))
    if len(shape) == 2:
        settings["keypoints"] = shape
    return settings


def engine_batch(facts: Mapping[str, Any]) -> int | None:
    """Return the most images in one call for which the graph's results are right; None: any number.

    NMS that Ultralytics (8.4.190, measured) puts into a graph is unrolled for the batch of the export: further images
    come back with nothing found, and without an error.
    """
    metadata: Mapping[str, str] = facts.get("metadata") or {}
    if "'nms': True" not in metadata.get("args", ""):
        return None
    batch = metadata.get("batch", "")
    return max(1, int(batch)) if batch.isdecimal() else 1


def check(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> list[str]:
    """Return what cannot work, field first.

    Args:
        manifest: {"settings": DEFAULTS merged with the manifest's block, "outputs": the output adapter, "task"}.
        facts: What the graph says of itself ({"outputs": [{"name", "dtype", "shape"}, ...], "metadata": {...}}); None
            when unknown.
    """
    problems = [*_adapter(manifest["outputs"]), *_metadata(manifest, facts)]
    if problems:
        return problems
    classes = manifest["settings"]["num_classes"]
    if classes is None:
        return [
            "detection.num_classes: expected the number of classes the model was trained on, got nothing; "
            "set it, or list detection.class_names"
        ]
    keypoints = manifest["settings"].get("keypoints")
    if keypoints and keypoints[1] not in (2, 3):
        return [f"detection.keypoints: expected [points, 2 or 3] (x, y, visibility), got {keypoints}; correct it"]
    if manifest["outputs"] or not facts:
        return []
    return _shapes([output["shape"] for output in facts["outputs"]], classes, manifest)


def advise(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> list[str]:
    """Return what is likely a mistake, but may be meant, field first."""
    task = _graph_task(facts)
    if task is None or task == _task(manifest):
        return []
    return [f"task: the graph was exported for {task}; its boxes are served, what else it finds is left out"]


def _adapter(outputs: Mapping[str, Any]) -> list[str]:
    unknown = sorted(set(outputs) - set(_MEANINGS))
    if unknown:
        return [
            f"outputs.{meaning}: expected boxes (the head), or boxes and scores, and classes and count with them, "
            f"got {meaning!r}; name it boxes if it is the head"
            for meaning in unknown
        ]
    needed = {"scores": "boxes", "classes": "scores", "count": "classes"}
    return [
        f"outputs.{meaning}: expected {other} beside it, got {', '.join(sorted(outputs))}; name both"
        for meaning, other in needed.items()
        if meaning in outputs and other not in outputs
    ]


def _metadata(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> list[str]:
    """Return what the graph's metadata says against the manifest."""
    metadata: Mapping[str, str] = (facts or {}).get("metadata") or {}
    if metadata.get("head") == "RTDETRDecoder":
        return ["detection.layout: expected detr for an RT-DETR graph (its boxes are fractions), got yolo; set it"]
    if metadata.get("task") == "classify" and "stride" in metadata:
        return ["task: expected classification for this graph, got a detection task; set it"]
    rotated = _graph_task(facts) == "oriented_detection"
    if rotated and _task(manifest) != "oriented_detection":
        return [
            f"task: expected oriented_detection for a graph of rotated boxes, got {_task(manifest)}; "
            "set it, or export a detection model"
        ]
    return []


def _shapes(shapes: Sequence[Sequence[Any]], classes: int, manifest: Mapping[str, Any]) -> list[str]:
    """Return what the outputs' shapes say against the manifest; nothing where an axis that counts is open."""
    if any(not shape for shape in shapes):
        return []
    heads = [shape for shape in shapes if len(shape) == 3]
    got = ", ".join(str(list(shape)) for shape in shapes)
    if _task(manifest) == "instance_segmentation" and not any(len(shape) == 4 for shape in shapes):
        return [
            f"task: expected an output of rank 4 (the masks' prototypes) for instance_segmentation, got {got} from the "
            "graph; export the segmentation model whole, or set task to object_detection"
        ]
    if not heads:
        if any(len(shape) == 2 and shape[1] == 7 for shape in shapes):
            return []
        return [
            f"detection.layout: expected an output of rank 3 (a decoded head) for yolo, got {got} from the graph; "
            "export the model with its decode (detect) layer"
        ]
    if len(heads) > 1 or not all(isinstance(axis, int) for axis in heads[0][1:]):
        return []
    if len(shapes) > 1 and heads[0][2] == 4:
        return []
    extras = _extras(shapes, classes, manifest)
    widths = {base + extra for extra in extras for base in (4 + classes, 5 + classes)}
    raw, rows = widths & set(heads[0][1:]), heads[0][2] in {6 + extra for extra in extras}
    stated = manifest["settings"].get("end_to_end")
    if (raw and stated is not True) or (rows and stated is not False):
        return []
    if raw or rows:
        return [
            f"detection.end_to_end: expected {str(rows).lower()} for {list(heads[0])} of the graph with "
            f"num_classes={classes}, got {str(stated).lower()}; leave it out or correct it"
        ]
    behind = f" and {extras[0]} behind them" if extras[0] else ""
    return [
        f"detection.num_classes: expected a head with {4 + classes + extras[0]} or {5 + classes + extras[0]} channels "
        f"for num_classes={classes}{behind} (or {6 + extras[0]} for end-to-end rows), got {min(heads[0][1:])} in "
        f"{list(heads[0])} from the graph; set num_classes to what the model was trained on"
    ]


def _extras(shapes: Sequence[Sequence[Any]], classes: int, manifest: Mapping[str, Any]) -> list[int]:
    """Return how many channels the task lets stand behind boxes and scores, as tasks_*.py have it."""
    prototypes = [shape[1] for shape in shapes if len(shape) == 4 and isinstance(shape[1], int)]
    points, values = manifest["settings"].get("keypoints") or (17, 3)
    task = _task(manifest)
    if task == "instance_segmentation":
        return prototypes or [32]
    if task == "keypoint_detection":
        stated = manifest["settings"].get("keypoints") is not None
        return [points * values] if stated else [points * values, *_points(shapes, classes)]
    if task == "oriented_detection":
        return [1]
    stated = classes == 1 or manifest["settings"].get("keypoints") is not None
    return [0, *prototypes, *([points * values] if stated else [])]


def _points(shapes: Sequence[Sequence[Any]], classes: int) -> list[int]:
    """Return the counts of channels behind a head's scores that can only be points of x, y and visibility.

    That is an odd multiple of 3, as tasks_keypoint_detection.py has it; an even one could be points of x and y too.
    """
    widths = [axis for shape in shapes if len(shape) == 3 for axis in shape[1:] if isinstance(axis, int)]
    behind = [width - front for width in widths for front in (4 + classes, 5 + classes, 6)]
    return [extra for extra in behind if extra > 0 and extra % 6 == 3]


def _task(manifest: Mapping[str, Any]) -> str:
    return manifest.get("task") or "object_detection"


def _graph_task(facts: Mapping[str, Any] | None) -> str | None:
    """Return the task that Ultralytics' metadata names, in our words; None where there is none."""
    metadata: Mapping[str, str] = (facts or {}).get("metadata") or {}
    return _GRAPH_TASKS.get(metadata.get("task", "")) if "stride" in metadata else None


def _numbers(text: str) -> list[int]:
    """Return the whole numbers of a list's text, "[17, 3]"; none where it is something else."""
    parts = text.strip("[]() ").split(",")
    return [int(part) for part in parts] if all(part.strip().isdigit() for part in parts) else []
