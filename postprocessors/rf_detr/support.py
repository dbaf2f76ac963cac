"""What the tool must know of RF-DETR heads. Standard library only; loaded by file path, never at run time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAMES = frozenset(
    {
        "rf_detr",
        "rfdetr",
        "rf_detr_object_detection",
        "rf_detr_instance_segmentation",
        "canele",
    }
)
TASKS = frozenset({"object_detection", "instance_segmentation"})
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
# rfdetr 1.11 resizes floats without antialiasing, and takes as many query and class pairs as the model has queries
# (num_select: 300, the small segmentation models 100 or 200).
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "rf-detr": {
        "stage": {
            "resize": "stretch",
            "interpolation": "linear",
            "resize_dtype": "float32",
            "image_range_scale": True,
            "normalize": True,
        },
        "detection": {"score_threshold": 0.5, "compare": "greater", "top_k": None},
    },
}


def check(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> list[str]:
    """Return what cannot work, field first.

    Args:
        manifest: {"settings": DEFAULTS merged with the manifest's block, "outputs": the output adapter, ...}.
        facts: What the graph says of itself ({"outputs": [{"name", "dtype", "shape"}, ...]}); None when unknown.
    """
    return [*_adapter(manifest), *_outputs(manifest, facts)]


def advise(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> list[str]:
    """Return what is likely a mistake, but may be meant, field first."""
    del facts
    if manifest["stage"].get("normalize"):
        return []
    return [
        "model_graph.stages[0].normalize: is not true, but RF-DETR's own exports expect ImageNet normalisation; "
        "set it to true unless this model was trained without"
    ]


def _adapter(manifest: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the output adapter: boxes and logits, and masks where the task has them, or nothing."""
    outputs: Mapping[str, Mapping[str, Any]] = manifest["outputs"]
    optional = {"masks"} if manifest.get("task") == "instance_segmentation" else set[str]()
    if outputs and set(outputs) - optional != {"boxes", "logits"}:
        return [
            f"outputs: expected boxes and logits for an RF-DETR model, got {', '.join(sorted(outputs))}; "
            "name both or none"
        ]
    return []


def _outputs(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> list[str]:
    """Return where the graph contradicts the manifest."""
    shapes = [output["shape"] for output in (facts or {}).get("outputs", [])]
    # A shape without axes is one that the graph leaves open.
    if manifest["outputs"] or not all(shapes):
        return []
    if len(shapes) == 1:
        return [
            f"detection.layout: expected boxes and logits for an RF-DETR model, got one output {shapes[0]} from the "
            "graph; detr is the layout of RT-DETR exports with one output"
        ]
    if manifest.get("task") == "instance_segmentation" and not any(len(shape) == 4 for shape in shapes):
        return [
            "task: expected masks [B, Q, h, w] among the outputs of the graph for instance_segmentation, "
            f"got {', '.join(map(str, shapes))}; export the segmentation model, or set task to object_detection"
        ]
    classes, columns = manifest["settings"]["num_classes"], _class_columns(shapes)
    if classes is None or columns is None or columns in (classes, classes + 1):
        return []
    return [
        f"detection.num_classes: expected {classes} or {classes + 1} class columns (one more for the background), "
        f"got {columns} from the graph; set num_classes to what the model was trained on"
    ]


def _class_columns(shapes: list[Any]) -> int | None:
    """Return C of the graph's [B, Q, C] logits where shapes alone tell which output is which."""
    widths = [shape[2] for shape in shapes if len(shape) == 3]
    if len(widths) != 2 or 4 not in widths:
        return None
    widths.remove(4)
    return widths[0] if isinstance(widths[0], int) else None
