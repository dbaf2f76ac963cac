"""What the tool must know of YOLO heads. Standard library only; loaded by file path, never at run time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAMES = frozenset({"yolo", "yolo_object_detection"})
TASKS = frozenset({"object_detection"})
DEFAULTS: dict[str, Any] = {
    "num_classes": None,
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


def check(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> list[str]:
    """Return what cannot work, field first.

    Args:
        manifest: {"settings": DEFAULTS merged with the manifest's block, "outputs": the output adapter, ...}.
        facts: What the graph says of itself ({"outputs": [{"name", "dtype", "shape"}, ...]}); None when unknown.
    """
    unknown = sorted(set(manifest["outputs"]) - {"boxes"})
    if unknown:
        return [
            f"outputs.{meaning}: expected boxes (the head) for a YOLO model, got {meaning!r}; name it boxes"
            for meaning in unknown
        ]
    settings = manifest["settings"]
    if settings["end_to_end"] or settings["box_format"] != "cxcywh":
        return [
            "detection.end_to_end, detection.box_format: expected a raw head (cx, cy, w, h and class scores), "
            "other exports cannot be decoded yet; export without NMS in the graph"
        ]
    classes = settings["num_classes"]
    if classes is None:
        return [
            "detection.num_classes: expected the number of classes the model was trained on, got nothing; "
            "set it, or list detection.class_names"
        ]
    head = _static_head(facts)
    if head is None or manifest["outputs"] or 4 + classes in head[1:]:
        return []
    return [
        f"detection.num_classes: expected a head with {4 + classes} channels (4 + {classes} classes), "
        f"got {head} from the graph; set num_classes to what the model was trained on"
    ]


def _static_head(facts: Mapping[str, Any] | None) -> list[int] | None:
    """Return the shape of the only rank-3 output when its channels and anchors are fixed in the graph."""
    outputs = [output["shape"] for output in (facts or {}).get("outputs", []) if len(output["shape"]) == 3]
    if len(outputs) != 1 or not all(isinstance(axis, int) for axis in outputs[0][1:]):
        return None
    return list(outputs[0])
