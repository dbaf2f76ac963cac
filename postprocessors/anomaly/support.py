"""What the tool must know of anomaly heads. Standard library only; loaded by file path, never at run time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

# Stage types of anomaly packages are free words (code names of the trainer): the task's own name stands for them all.
NAMES = frozenset({"anomaly"})
TASKS = frozenset({"anomaly"})
DEFAULTS: dict[str, Any] = {
    "threshold": 0.5,
    # Of a map; None: the mask that the graph has, else `threshold`, as anomalib has it without a pixel threshold.
    "pixel_threshold": None,
    # [lowest, highest] score of validation images, by which distances become 0..1; None: scores stay as they are.
    "score_range": None,
    # As the capture world's two-neuron heads have it: index 0 anomalous, index 1 normal.
    "class_normal_ids": [1],
    "pixel_class_names": [],
}
# anomalib's graphs resize (bilinear, not antialiased, floats) and normalise themselves since 1.0, and since 2.0 they
# scale scores and maps to 0..1 with the threshold at 0.5. Before 1.0 they did neither, and albumentations resized the
# images, with OpenCV's bilinear filter.
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "anomalib": {
        "stage": {
            "resize": "stretch",
            "interpolation": "linear",
            "resize_dtype": "float32",
            "channel_order": "rgb",
            "image_range_scale": True,
            "normalize": False,
        },
        "detection": {"threshold": 0.5},
    },
    "anomalib-0": {
        "stage": {
            "resize": "stretch",
            "interpolation": "linear",
            "channel_order": "rgb",
            "image_range_scale": True,
            "normalize": True,
        },
        "detection": {},
    },
}

_MEANINGS = frozenset({"classes", "score", "map", "pixel_classes"})
_STAGE = "model_graph.stages[0]"


def check(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> list[str]:
    """Return what cannot work, field first.

    Args:
        manifest: {"settings": DEFAULTS merged with the manifest's words, "outputs": the output adapter, ...}.
        facts: What the graph says of itself ({"outputs": [{"name", "dtype", "shape"}, ...]}); None when unknown.
    """
    problems = [
        f"outputs.{meaning}: expected one of {', '.join(sorted(_MEANINGS))} for an anomaly model, got {meaning!r}; "
        "correct it"
        for meaning in manifest["outputs"]
        if meaning not in _MEANINGS
    ]
    settings: Mapping[str, Any] = {**DEFAULTS, **manifest.get("settings", {})}
    problems.extend(_values(settings))
    if problems or not facts or manifest["outputs"]:
        return problems
    return [*_normal_ids(settings, facts["outputs"]), *_pixel_names(settings, facts["outputs"])]


def advise(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> list[str]:
    """Return what is likely a mistake, but may be meant, field first."""
    outputs: Sequence[Mapping[str, Any]] = (facts or {}).get("outputs", [])
    advice: list[str] = []
    if manifest["stage"].get("normalize") and {"pred_score", "anomaly_map"} <= {output["name"] for output in outputs}:
        advice.append(
            f"{_STAGE}.normalize: is true, but anomalib's graphs normalise themselves since 1.0; set it to false, or "
            "preset to anomalib, unless this one does not"
        )
    names = len(manifest["settings"]["pixel_class_names"])
    planes = [output["shape"][1] for output in outputs if len(output["shape"]) == 4 and output["shape"][1] != 1]
    if names and len(planes) == 1 and isinstance(planes[0], int) and planes[0] != names and not manifest["outputs"]:
        fewer = "a class without one is class_<id>" if names < planes[0] else "the rest is not used"
        advice.append(f"model_graph.pixel_level_classes: {names} names for {planes[0]} classes of the graph; {fewer}")
    return advice


def _values(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the keys that no other decoder has."""
    threshold, score_range = settings["pixel_threshold"], settings["score_range"]
    if threshold is not None and not _is_number(threshold):
        yield f"{_STAGE}.pixel_threshold: expected a number, got {threshold!r}; correct it"
    if score_range is not None and not _is_range(score_range):
        yield f"{_STAGE}.score_range: expected two numbers, the lower one first, got {score_range!r}; correct it"


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= 1e9


def _is_range(value: object) -> bool:
    if not isinstance(value, list):
        return False
    limits = cast("list[Any]", value)
    return len(limits) == 2 and all(map(_is_number, limits)) and limits[0] < limits[1]


def _normal_ids(settings: Mapping[str, Any], outputs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return where the normal classes are no classes of the graph's class head."""
    heads = [output["shape"] for output in outputs if "float" in output["dtype"] and len(output["shape"]) == 2]
    columns = heads[0][1] if len(heads) == 1 else None
    ids: list[int] = settings["class_normal_ids"]
    if not isinstance(columns, int) or columns < 2 or (max(ids, default=0) < columns and len(set(ids)) < columns):
        return []
    return [
        f"{_STAGE}.class_normal_ids: expected some, not all, of the graph's {columns} classes, got {ids}; correct them"
    ]


def _pixel_names(settings: Mapping[str, Any], outputs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return where more pixel classes are named than the graph's outputs tell apart."""
    names: list[str] = settings["pixel_class_names"]
    if len(names) in (0, 2) or not all(output["shape"] for output in outputs):
        return []
    planes = [output for output in outputs if len(output["shape"]) in (3, 4)]
    if not planes or any(_has_classes(output) for output in planes):
        return []
    return [
        "model_graph.pixel_level_classes: expected 2 names (background first) for a graph with a map and no pixel "
        f"classes, got {len(names)}; correct them"
    ]


def _has_classes(output: Mapping[str, Any]) -> bool:
    shape, dtype = output["shape"], output["dtype"]
    return (len(shape) == 4 and shape[1] != 1) or ("float" not in dtype and "bool" not in dtype)
