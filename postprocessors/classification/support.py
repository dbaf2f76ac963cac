"""What the tool must know of image classifiers. Standard library only; loaded by file path, never at run time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAMES = frozenset({"classification", "image_classification", "yolo_classification"})
TASKS = frozenset({"classification"})
DEFAULTS: dict[str, Any] = {
    "num_classes": None,
    "top_k": 5,
    "use_softmax": False,
    # True: classes do not exclude each other, and scores need not be 1 in total.
    "multi_label": False,
    "score_threshold": 0.0,
    "compare": "greater_equal",
    "classes": None,
    "class_thresholds": None,
}
# torchvision and timm resize by more than the network's side and then crop, which the stage's keys cannot say.
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "ultralytics-classify": {
        "stage": {
            "resize": "shortest_edge_crop",
            "interpolation": "antialias",
            "channel_order": "rgb",
            "image_range_scale": True,
            "normalize": False,
        },
        "detection": {"top_k": 5, "use_softmax": False},
    },
}


def check(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> list[str]:
    """Return what cannot work, field first.

    Args:
        manifest: {"settings": DEFAULTS merged with the manifest's block, "outputs": the output adapter, ...}.
        facts: What the graph says of itself ({"outputs": [{"name", "dtype", "shape"}, ...], "metadata": {...}}); None
            when unknown.
    """
    problems = [*_adapter(manifest["outputs"]), *_activation(manifest, facts)]
    if problems or not facts:
        return problems
    outputs: list[Mapping[str, Any]] = facts["outputs"]
    named = manifest["outputs"].get("scores")
    if named is not None:
        tensor = named["tensor"]
        outputs = [output for index, output in enumerate(outputs) if tensor in (index, output["name"])]
    return _shapes([output["shape"] for output in outputs], manifest["settings"]["num_classes"])


def _adapter(outputs: Mapping[str, Any]) -> list[str]:
    return [
        f"outputs.{meaning}: expected scores (the score of each class) for a classifier, got {meaning!r}; correct it"
        for meaning in outputs
        if meaning != "scores"
    ]


def _activation(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> list[str]:
    """Return where scores would be activated twice, or cannot be scores."""
    settings = manifest["settings"]
    activation = manifest["outputs"].get("scores", {}).get("activation", "none")
    metadata: Mapping[str, str] = (facts or {}).get("metadata") or {}
    if activation == "argmax":
        return ["outputs.scores.activation: expected none, sigmoid or softmax for a classifier, got argmax; correct it"]
    if not settings["use_softmax"]:
        return []
    if activation != "none":
        return [
            f"detection.use_softmax: expected false beside the activation {activation} of outputs.scores, got true; "
            "keep one of them"
        ]
    if settings["multi_label"]:
        return [
            "detection.use_softmax: expected false with detection.multi_label true, because softmax makes classes "
            "exclude each other, got true; set outputs.scores.activation to sigmoid instead"
        ]
    if metadata.get("task") == "classify":
        return ["detection.use_softmax: expected false for Ultralytics' graph, which has a softmax, got true; drop it"]
    return []


def _shapes(shapes: list[Any], classes: int | None) -> list[str]:
    """Return where the graph contradicts the manifest; nothing where an axis that counts is open."""
    if not all(shapes):
        return []
    heads = [shape for shape in shapes if len(shape) == 2 or (len(shape) == 4 and shape[2:] == [1, 1])]
    if not heads:
        got = ", ".join(map(str, shapes))
        return [f"task: expected an output [B, nc] for classification, got {got} from the graph; set the graph's task"]
    if len(heads) > 1:
        got = ", ".join(map(str, heads))
        return [f"outputs.scores: expected the output with a score per class, got {got} from the graph; name it"]
    columns = heads[0][1]
    if classes is None or not isinstance(columns, int) or columns == classes:
        return []
    return [
        f"detection.num_classes: expected {columns}, the columns of the graph's {heads[0]}, got {classes}; "
        "set num_classes to what the model was trained on"
    ]
