"""What model.json tells the payload: preprocessing, decoding, class names. Where the graph is static, it wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .facts import OnnxFacts, parse_names
from .families import Family
from .manifest.parse import Manifest

# The mean and standard deviation of ImageNet's training images, fractions, RGB: what vision models are normalised by.
IMAGENET_MEAN = [0.485, 0.456, 0.406]
IMAGENET_STD = [0.229, 0.224, 0.225]


@dataclass(frozen=True)
class Network:
    """The network's input: sides in pixels, channels, NCHW or NHWC."""

    height: int
    width: int
    channels: int
    layout: str


@dataclass
class Notes:
    """What was found out on the way: problems refuse, warnings are printed."""

    problems: list[str]
    warnings: list[str]


def network_input(manifest: Manifest, facts: OnnxFacts | None, notes: Notes) -> Network | None:
    """Return the network's input size: the graph's static axes, then input_shape, image_*, network_input."""
    graph = _from_shape(facts.inputs[0].shape) if facts and facts.inputs and len(facts.inputs[0].shape) == 4 else None
    stated = _stated_size(manifest)
    shape = manifest.stage.get("input_shape")
    layout = graph or (_from_shape(tuple(shape)) if shape else None)
    channels, order = (layout.channels, layout.layout) if layout else (3, "NCHW")
    height = (graph.height if graph else 0) or (stated[0] if stated else 0)
    width = (graph.width if graph else 0) or (stated[1] if stated else 0)
    if not height or not width:
        notes.problems.append(
            "model_graph.stages[0].input_shape: expected the network's size, because the graph leaves it open, "
            "got nothing; add input_shape [1, 3, height, width]"
        )
        return None
    if stated and stated != (height, width):
        notes.warnings.append(
            f"network size: the manifest says {stated[0]} x {stated[1]} (height x width), the graph {height} x {width}; "
            "the graph wins"
        )
    return Network(height, width, channels, order)


def preprocess_settings(manifest: Manifest, network: Network, facts: OnnxFacts | None, notes: Notes) -> dict[str, Any]:
    """Return model.json's `preprocess`."""
    stage = manifest.stage
    integers = bool(facts and facts.inputs and facts.inputs[0].dtype in ("uint8", "int8", "int32", "int64"))
    scale = bool(stage.get("image_range_scale", not integers))
    mean, std = _normalisation(stage, network.channels, notes)
    if mean and not scale:
        notes.problems.append(
            "model_graph.stages[0].normalize: expected image_range_scale true with it (mean and std are for 0..1), "
            "got false; set image_range_scale to true or normalize to false"
        )
    if integers and scale:
        notes.warnings.append("image_range_scale: the graph takes integers; pixels go in as 0..255")
        scale = False
    return {
        **asdict(network),
        "preserve_aspect": stage.get("preserve_aspect", False),
        "interpolation": stage.get("interpolation", "area"),
        "image_range_scale": scale,
        "mean": mean,
        "std": std,
        "channel_order": stage.get("channel_order", "rgb"),
    }


def class_names(manifest: Manifest, facts: OnnxFacts | None) -> tuple[str, ...]:
    """Return names by class id: the manifest's, else those in the graph's metadata when the count fits."""
    if manifest.class_names:
        return manifest.class_names
    embedded = parse_names(facts.metadata.get("names", "")) if facts else None
    count = manifest.detection.get("num_classes")
    return embedded if embedded and count in (None, len(embedded)) else ()


def decode_settings(manifest: Manifest, family: Family, names: tuple[str, ...], notes: Notes) -> dict[str, Any]:
    """Return model.json's `decode`: the family's defaults, overridden by the stage, overridden by `detection`."""
    if manifest.task == "anomaly":
        given: dict[str, Any] = {"pixel_class_names": list(manifest.pixel_classes)}
        if manifest.normal_ids is not None:
            given["class_normal_ids"] = list(manifest.normal_ids)
        if "threshold" in manifest.stage:
            given["threshold"] = manifest.stage["threshold"]
        return {**family.defaults, **given}
    stage = {"score_threshold": manifest.stage["threshold"]} if "threshold" in manifest.stage else {}
    if not 0 <= stage.get("score_threshold", 0) <= 1:
        notes.problems.append(
            f"model_graph.stages[0].threshold: expected a number from 0 to 1 for a detector, "
            f"got {manifest.stage['threshold']}; correct it"
        )
    counted = {"num_classes": len(names)} if names else {}
    merged = {**counted, **stage, **manifest.detection}
    settings = {key: merged.get(key, default) for key, default in family.defaults.items()}
    _check_classes(settings, names, notes)
    return settings


def _from_shape(shape: tuple[int | str | None, ...]) -> Network:
    """Return what a 4-D input shape says; 0 for a side that it leaves open."""
    nhwc = shape[3] in (1, 3) and shape[1] not in (1, 3)
    height, width, channels = (shape[1], shape[2], shape[3]) if nhwc else (shape[2], shape[3], shape[1])

    def known(axis: int | str | None) -> int:
        return axis if isinstance(axis, int) and axis > 0 else 0

    return Network(known(height), known(width), known(channels) or 3, "NHWC" if nhwc else "NCHW")


def _stated_size(manifest: Manifest) -> tuple[int, int] | None:
    """Return (height, width) as the manifest states them, or None; input_shape wins over a single number."""
    stage = manifest.stage
    shape = stage.get("input_shape")
    if shape:
        network = _from_shape(tuple(shape))
        if network.height and network.width:
            return network.height, network.width
    if "image_height" in stage and "image_width" in stage:
        return stage["image_height"], stage["image_width"]
    size = manifest.detection.get("network_input")
    if isinstance(size, int):
        return size, size
    return (size[0], size[1]) if size else None


def _normalisation(
    stage: Mapping[str, Any], channels: int, notes: Notes
) -> tuple[list[float] | None, list[float] | None]:
    if not stage.get("normalize", False):
        return None, None
    mean, std = stage.get("mean", IMAGENET_MEAN), stage.get("std", IMAGENET_STD)
    for key, values in (("mean", mean), ("std", std)):
        if len(values) != channels:
            notes.problems.append(
                f"model_graph.stages[0].{key}: expected {channels} numbers, one per channel of the network's input, "
                f"got {len(values)}; correct it"
            )
    return mean, std


def _check_classes(settings: Mapping[str, Any], names: tuple[str, ...], notes: Notes) -> None:
    """Refuse references to classes that do not exist; say when names and count differ."""
    count = settings.get("num_classes") or len(names)
    if names and len(names) != count:
        notes.warnings.append(f"detection.class_names: {len(names)} names for {count} classes; the rest is class_<id>")
    per_class = list(settings.get("class_thresholds") or {})
    for key, wanted in (("classes", settings.get("classes") or []), ("class_thresholds", per_class)):
        unknown = [c for c in wanted if (c not in names if isinstance(c, str) else c >= count)]
        notes.problems.extend(
            f"detection.{key}: expected names or ids of the model's {count} classes, got {entry!r}; correct it"
            for entry in unknown
        )
