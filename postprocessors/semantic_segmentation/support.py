"""What the tool must know of semantic segmentation. Standard library only; loaded by file path, never at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NAMES = frozenset({"semantic_segmentation", "segformer", "deeplab"})
TASKS = frozenset({"semantic_segmentation"})
DEFAULTS: dict[str, Any] = {
    "num_classes": None,
    # Of a graph with one plane of scores; several planes are compared with each other.
    "score_threshold": 0.5,
    "compare": "greater_equal",
    # None: classes are the axis whose length is num_classes, [B, C, H, W] if that does not tell.
    "channels_first": None,
}
# transformers' SegformerImageProcessor: 512 x 512, bilinear as Pillow does it.
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "segformer": {
        "stage": {
            "resize": "stretch",
            "interpolation": "antialias",
            "channel_order": "rgb",
            "image_range_scale": True,
            "normalize": True,
        },
        "detection": {},
    },
}

MAX_CLASSES = 256
_MEANINGS = ("scores", "classes")


def check(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> list[str]:
    """Return what cannot work, field first.

    Args:
        manifest: {"settings": DEFAULTS merged with the manifest's block, "outputs": the output adapter, "stage"}.
        facts: What the graph says of itself ({"outputs": [{"name", "dtype", "shape"}, ...]}); None when unknown.
    """
    problems = [*_adapter(manifest["outputs"]), *_stage(manifest.get("stage") or {})]
    classes: int | None = manifest["settings"]["num_classes"]
    if classes is not None and classes > MAX_CLASSES:
        problems.append(
            f"detection.num_classes: expected at most {MAX_CLASSES} for semantic_segmentation, whose class map has one "
            f"byte per pixel, got {classes}; it cannot be served"
        )
    if problems or not facts:
        return problems
    return _shapes(_heads(manifest["outputs"], facts["outputs"]), manifest["settings"])


def _adapter(outputs: Mapping[str, Any]) -> list[str]:
    problems = [
        f"outputs.{meaning}: expected scores or classes for semantic_segmentation, got {meaning!r}; correct it"
        for meaning in outputs
        if meaning not in _MEANINGS
    ]
    if all(meaning in outputs for meaning in _MEANINGS):
        problems.append("outputs: expected scores or classes, got both; keep the one that holds what you want")
    return problems


def _stage(stage: Mapping[str, Any]) -> list[str]:
    if stage.get("resize") != "shortest_edge_crop":
        return []
    return [
        "model_graph.stages[0].resize: expected stretch or letterbox for semantic_segmentation, got "
        "shortest_edge_crop; pixels that are cut off would have no class"
    ]


def _heads(outputs: Mapping[str, Any], known: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the graph's outputs that may be meant."""
    if outputs:
        (source,) = outputs.values()
        return [output for index, output in enumerate(known) if source["tensor"] in (index, output["name"])]
    return [output for output in known if len(output["shape"]) in (0, 3, 4) and "aux" not in output["name"].lower()]


def _shapes(heads: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> list[str]:
    """Return where the graph contradicts the manifest; nothing where an axis that counts is open."""
    if not all(head["shape"] for head in heads):
        return []
    got = ", ".join(str(head["shape"]) for head in heads) or "none"
    if len(heads) != 1 or len(heads[0]["shape"]) not in (3, 4):
        return [
            "outputs: expected one output of class scores [B, C, H, W] or class indices [B, H, W], "
            f"got {got} from the graph; name it in outputs.scores or outputs.classes"
        ]
    shape, classes = heads[0]["shape"], settings["num_classes"]
    if "float" not in heads[0]["dtype"] or len(shape) == 3:
        return []
    if classes is None and settings["channels_first"] is None and _may_be_last(shape):
        return [
            f"detection.num_classes: expected the number of classes, got nothing; the graph's {shape} does not tell "
            "classes from pixels; set it, or channels_first"
        ]
    axes = {True: (1,), False: (3,), None: (1,) if classes is None else (1, 3)}[settings["channels_first"]]
    columns = [shape[axis] for axis in axes]
    if not all(isinstance(count, int) for count in columns):
        return []
    fits = classes in columns or (classes is None and columns[0] <= MAX_CLASSES) or (columns[0] == 1 and classes == 2)
    if fits:
        return []
    return [
        f"detection.num_classes: expected the classes of the graph's {got} ({columns[0]}, at most {MAX_CLASSES}), "
        f"got {'nothing' if classes is None else classes}; set num_classes to what the model was trained on, and "
        "channels_first to false if classes are the last axis"
    ]


def _may_be_last(shape: Sequence[Any]) -> bool:
    """Return whether [B, ?, ?, ?] could be a square picture with its classes last, as decode.py has it."""
    _, first, second, last = shape
    return isinstance(first, int) and isinstance(last, int) and first == second > last and 32 <= first <= MAX_CLASSES
