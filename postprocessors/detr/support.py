"""What the tool must know of DETR heads. Standard library only; loaded by file path, never at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_MODELS = ("detr", "rt_detr", "rtdetr", "d_fine", "dfine", "deim", "deformable_detr", "conditional_detr", "yolos")
NAMES = frozenset([*_MODELS, *(f"{model}_object_detection" for model in _MODELS)])
TASKS = frozenset({"object_detection"})
DEFAULTS: dict[str, Any] = {
    "num_classes": None,
    "score_threshold": 0.5,
    "top_k": 300,
    "max_det": 300,
    "use_softmax": False,
    "background_class": None,
    "multi_label": None,
    "end_to_end": None,
    "box_format": None,
    "boxes_normalized": None,
    "compare": "greater_equal",
    "classes": None,
    "class_thresholds": None,
}

_STRETCH: dict[str, Any] = {
    "resize": "stretch",
    "interpolation": "linear",
    "image_range_scale": True,
    "normalize": False,
}
# transformers' image processors resize as torchvision does, with antialiasing.
_ANTIALIASED = {**_STRETCH, "interpolation": "antialias"}
_IMAGENET = {**_ANTIALIASED, "normalize": True}


def _preset(stage: Mapping[str, Any], threshold: float, **detection: object) -> dict[str, dict[str, Any]]:
    vendors = {"score_threshold": threshold, "compare": "greater", "use_softmax": False, **detection}
    return {"stage": dict(stage), "detection": vendors}


# top_k None: as many as the model has queries.
_FOCAL = {"multi_label": True, "top_k": None}
_NO_OBJECT = {"use_softmax": True, "background_class": -1, "multi_label": False, "top_k": None}
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "hf-rt-detr": _preset(_ANTIALIASED, 0.5, **_FOCAL),
    "hf-d-fine": _preset(_ANTIALIASED, 0.5, **_FOCAL),
    "hf-conditional-detr": _preset(_IMAGENET, 0.5, multi_label=True, top_k=100),
    "hf-deformable-detr": _preset(_IMAGENET, 0.5, multi_label=True, top_k=100),
    "hf-detr": _preset(_IMAGENET, 0.5, **_NO_OBJECT),
    "hf-yolos": _preset(_IMAGENET, 0.5, **_NO_OBJECT),
    "ultralytics-rt-detr": _preset(_STRETCH, 0.25, end_to_end=True),
    "ultralytics-rt-detr-8.3": _preset(_STRETCH, 0.25, end_to_end=False, multi_label=False),
    "rt-detr": _preset(_ANTIALIASED, 0.6, multi_label=True, top_k=300),
    "d-fine": _preset(_ANTIALIASED, 0.4, multi_label=True, top_k=300),
    "deim": _preset(_ANTIALIASED, 0.4, multi_label=True, top_k=300),
}


def derive(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return settings that the graph's metadata decides where the manifest says nothing.

    Ultralytics names the decoder in the metadata since the graph chooses its rows itself (8.4.190); with two classes
    the width of 6 fits its older exports too.
    """
    metadata: Mapping[str, str] = (facts or {}).get("metadata") or {}
    shapes = _shapes(facts)
    if len(shapes) != 1 or metadata.get("author") != "Ultralytics" or shapes[0][-1:] != [6]:
        return {}
    if metadata.get("head") == "RTDETRDecoder":
        return {"end_to_end": True}
    classes = manifest["settings"]["num_classes"] or len(manifest.get("class_names", ()))
    return {"end_to_end": False} if classes == 2 else {}


def check(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> list[str]:
    """Return what cannot work, field first.

    Args:
        manifest: {"settings": DEFAULTS merged with the manifest's block, "outputs": the output adapter, ...}.
        facts: What the graph says of itself ({"outputs": [{"name", "dtype", "shape"}, ...]}); None when unknown.
    """
    outputs: Mapping[str, Mapping[str, Any]] = manifest["outputs"]
    of_outputs = _adapter(outputs) if outputs else _graph(_shapes(facts), manifest["settings"])
    return _metadata(facts) or [*_by_name(manifest), *of_outputs]


def advise(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> list[str]:
    """Return what is likely a mistake, but may be meant, field first."""
    settings = manifest["settings"]
    classes, columns = settings["num_classes"], _class_columns(_shapes(facts))
    undecided = not settings["use_softmax"] and settings["background_class"] is None
    if columns is None or not undecided or manifest["outputs"]:
        return []
    # Without a count, the name is all that may speak of DETR itself.
    if columns != classes + 1 if classes is not None else not _layout(manifest).startswith("detr"):
        return []
    more = "" if classes is None else ", one more than num_classes"
    return [
        f"detection.use_softmax: the graph has {columns} class columns{more}; all are kept as "
        "independent classes; for DETR or YOLOS, whose last column is no object, set use_softmax to true"
    ]


def _layout(manifest: Mapping[str, Any]) -> str:
    return str(manifest["detection"].get("layout") or manifest.get("stage_type") or "")


def _metadata(facts: Mapping[str, Any] | None) -> list[str]:
    """Return what the graph's metadata says against this family: a YOLO of Ultralytics has rows of 6, too."""
    metadata: Mapping[str, str] = (facts or {}).get("metadata") or {}
    is_yolo = metadata.get("end2end") == "True" or metadata.get("head", "RTDETRDecoder") != "RTDETRDecoder"
    if metadata.get("author") != "Ultralytics" or not is_yolo:
        return []
    return ["detection.layout: expected yolo for this graph of Ultralytics, got detr; set it"]


def _by_name(manifest: Mapping[str, Any]) -> list[str]:
    """Return what contradicts the layout's name: YOLOS is the one model whose scores are a softmax for certain."""
    if not _layout(manifest).startswith("yolos") or manifest["settings"]["use_softmax"]:
        return []
    return [
        "detection.use_softmax: expected true for YOLOS, whose last class column is no object, got false; set it, or "
        'model_graph.stages[0].preset to "hf-yolos"'
    ]


_NO_COUNT = (
    "detection.num_classes: expected the number of classes the model was trained on, got nothing, and the graph's "
    "outputs do not show it; set it, or list detection.class_names"
)
_MEANINGS = (("boxes", "logits"), ("boxes", "scores"), ("boxes", "classes", "scores"), ("boxes",))


def _adapter(outputs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    named = tuple(sorted(outputs))
    if named in _MEANINGS:
        return []
    known = " or ".join(", ".join(meanings) for meanings in _MEANINGS)
    return [f"outputs: expected {known} for a DETR model, got {', '.join(named)}; name the whole set or none"]


def _graph(shapes: Sequence[Sequence[Any]], settings: Mapping[str, Any]) -> list[str]:
    """Return where the graph contradicts the manifest; a shape without axes is one that the graph leaves open."""
    classes = settings["num_classes"]
    if not shapes or not all(shapes):
        return []
    if len(shapes) == 1:
        return _one_output(shapes[0], settings)
    if sorted(map(len, shapes)) == [2, 2, 3]:
        return [] if classes else [_NO_COUNT]
    columns = _class_columns(shapes)
    if classes is None or columns is None or columns in (classes, classes + 1):
        return []
    return [
        f"detection.num_classes: expected {classes} or {classes + 1} class columns (one more for no object), "
        f"got {columns} from the graph; set num_classes to what the model was trained on"
    ]


def _one_output(shape: Sequence[Any], settings: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a graph of one output."""
    classes = settings["num_classes"]
    if classes is None:
        return [_NO_COUNT]
    rows = settings["end_to_end"]
    widths = [6] if rows else [4 + classes] if rows is False else [6, 4 + classes]
    if len(shape) == 3 and (not isinstance(shape[2], int) or shape[2] in widths):
        return []
    expected = " or ".join(f"[B, Q, {width}]" for width in widths)
    return [
        f"detection.num_classes: expected one output {expected} for {classes} classes, got {list(shape)} from the "
        "graph; correct num_classes, or export logits and boxes"
    ]


def _shapes(facts: Mapping[str, Any] | None) -> list[list[Any]]:
    return [list(output["shape"]) for output in (facts or {}).get("outputs", [])]


def _class_columns(shapes: Sequence[Sequence[Any]]) -> int | None:
    """Return C of the graph's [B, Q, C] logits where shapes alone tell which output is which."""
    widths = [shape[2] for shape in shapes if len(shape) == 3]
    if len(widths) != 2 or 4 not in widths:
        return None
    widths.remove(4)
    return widths[0] if isinstance(widths[0], int) else None
