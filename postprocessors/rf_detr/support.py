"""What the tool must know of RF-DETR heads. Standard library only; loaded by file path, never at run time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAMES = frozenset({"rf_detr", "rf_detr_object_detection", "canele"})
TASKS = frozenset({"object_detection"})
DEFAULTS: dict[str, Any] = {
    "num_classes": None,
    "score_threshold": 0.5,
    "top_k": 300,
    "max_det": 300,
    "use_softmax": False,
    "background_class": None,
    "compare": "greater_equal",
    "classes": None,
    "class_thresholds": None,
}


def check(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> list[str]:
    """Return what cannot work, field first.

    Args:
        manifest: {"settings": DEFAULTS merged with the manifest's block, "outputs": the output adapter, ...}.
        facts: What the graph says of itself ({"outputs": [{"name", "dtype", "shape"}, ...]}); None when unknown.
    """
    named = sorted(manifest["outputs"])
    if named and named != ["boxes", "logits"]:
        return [f"outputs: expected boxes and logits for an RF-DETR model, got {', '.join(named)}; name both or none"]
    classes = manifest["settings"]["num_classes"]
    columns = _class_columns(facts)
    if classes is None or columns is None or manifest["outputs"] or columns in (classes, classes + 1):
        return []
    return [
        f"detection.num_classes: expected {classes} or {classes + 1} class columns (one more for the background), "
        f"got {columns} from the graph; set num_classes to what the model was trained on"
    ]


def advise(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> list[str]:
    """Return what is likely a mistake, but may be meant, field first."""
    del facts
    if manifest["stage"].get("normalize"):
        return []
    return [
        "model_graph.stages[0].normalize: is not true, but RF-DETR's own exports expect ImageNet normalisation; "
        "set it to true unless this model was trained without"
    ]


def _class_columns(facts: Mapping[str, Any] | None) -> int | None:
    """Return C of the graph's [B, Q, C] logits where shapes alone tell which output is which."""
    outputs = [output["shape"] for output in (facts or {}).get("outputs", []) if len(output["shape"]) == 3]
    if len(outputs) != 2:
        return None
    widths = [shape[2] for shape in outputs]
    if 4 not in widths:
        return None
    widths.remove(4)
    return widths[0] if isinstance(widths[0], int) else None
