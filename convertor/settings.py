"""What model.json tells the payload: preprocessing, decoding, class names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from convertor.facts import ArtifactFacts, parse_names
from convertor.families import Family
from convertor.manifest.kinds import text
from convertor.manifest.parse import ANOMALY, MANIFEST, Manifest
from convertor.manifest.reader import as_json
from convertor.network import STAGE, Network
from convertor.notes import Notes
from convertor.presets import OF_LETTERBOX, resize_mode

# The mean and standard deviation of ImageNet's training images, fractions, RGB: what vision models are normalised by.
IMAGENET_MEAN = [0.485, 0.456, 0.406]
IMAGENET_STD = [0.229, 0.224, 0.225]
# What the payload takes where model.json says nothing.
RESIZE_DEFAULTS: Mapping[str, Any] = {
    "letterbox": "centre",
    "letterbox_margin": 0,
    "resize_rounding": "half_even",
    "pad_value": 114,
    "box_gain": "exact",
    "resize_dtype": "uint8",
}


def preprocess_settings(
    manifest: Manifest, network: Network, notes: Notes, interpolation: str = "area"
) -> dict[str, Any]:
    """Return model.json's `preprocess`; `interpolation` is the profile's, for a stage that says none."""
    stage = manifest.stage
    scale = stage.get("image_range_scale", not network.integers)
    if network.integers and scale:
        notes.warnings.append(f"{STAGE}.image_range_scale: the graph takes integers; pixels go in as 0..255")
        scale = False
    mean, std = _normalisation(stage, network, scale, notes)
    return {
        "height": network.height,
        "width": network.width,
        "channels": network.channels,
        "layout": network.layout,
        "preserve_aspect": resize_mode(stage) == "letterbox",
        "interpolation": stage.get("interpolation", interpolation),
        "image_range_scale": scale,
        "mean": mean,
        "std": std,
        "channel_order": stage.get("channel_order", "rgb"),
        **_resizing(stage, network, notes),
    }


def class_names(manifest: Manifest, facts: ArtifactFacts | None) -> tuple[str, ...]:
    """Return names by class id: the manifest's, else those in the graph's metadata when the count fits.

    What the manifest would be refused for is no name in the metadata either: "" then, as for one that is missing.
    """
    if manifest.class_names:
        return manifest.class_names
    embedded = parse_names(facts.metadata.get("names", "")) if facts else None
    count = manifest.detection.get("num_classes")
    if not embedded or count not in (None, len(embedded)):
        return ()
    return tuple(name if text.accepts(name) else "" for name in embedded)


def decode_settings(manifest: Manifest, family: Family, names: tuple[str, ...], notes: Notes) -> dict[str, Any]:
    """Return model.json's `decode`: the family's defaults, overridden by the stage's threshold and by `detection`.

    The manifest is a settled one: its `detection` holds what its preset and the graph say.
    """
    if manifest.task == ANOMALY:
        given: dict[str, Any] = {"pixel_class_names": list(manifest.pixel_classes)}
        if manifest.normal_ids is not None:
            given["class_normal_ids"] = list(manifest.normal_ids)
        if "threshold" in manifest.stage:
            given["threshold"] = manifest.stage["threshold"]
        told = {key: value for key, value in manifest.detection.items() if key in family.defaults}
        return {**family.defaults, **told, **given}
    stage = {"score_threshold": manifest.stage["threshold"]} if "threshold" in manifest.stage else {}
    counted = {"num_classes": len(names)} if names else {}
    merged = {**counted, **stage, **manifest.detection}
    settings = {key: merged.get(key, default) for key, default in family.defaults.items()}
    _check_classes(settings, names, notes)
    return settings


def check_outputs(manifest: Manifest, facts: ArtifactFacts | None, notes: Notes) -> None:
    """Refuse an output adapter that names what the graph does not have."""
    if facts is None:
        return
    names = [output.name for output in facts.outputs]
    known = ", ".join(f"{index} {name}" for index, name in enumerate(names))
    for meaning, source in manifest.outputs.items():
        tensor = source["tensor"]
        if tensor not in (names if isinstance(tensor, str) else range(len(names))):
            notes.problems.append(
                f"{MANIFEST}: outputs.{meaning}.tensor: expected one of the graph's outputs ({known}), "
                f"got {as_json(tensor)}; correct it"
            )


def _resizing(stage: Mapping[str, Any], network: Network, notes: Notes) -> dict[str, Any]:
    """Return what of model.json's `preprocess` is not the default: how the image is resized and placed."""
    mode = resize_mode(stage)
    notes.problems.extend(_resize_problems(stage, network))
    if stage.get("preserve_aspect", mode == "letterbox") != (mode == "letterbox"):
        said = as_json(stage["preserve_aspect"])
        notes.warnings.append(f"{STAGE}.preserve_aspect says {said}, resize {as_json(mode)}; resize wins")
    other = {key: stage[key] for key, default in RESIZE_DEFAULTS.items() if stage.get(key, default) != default}
    unused = [key for key in OF_LETTERBOX if key in other] if mode != "letterbox" else []
    if unused:
        notes.warnings.append(
            f"{STAGE}.{' and '.join(unused)}: not used, because the image is not letterboxed; set resize to letterbox "
            "if the model wants it"
        )
    used = {key: value for key, value in other.items() if key not in unused}
    return {**({"crop": True} if mode == "shortest_edge_crop" else {}), **used}


def _resize_problems(stage: Mapping[str, Any], network: Network) -> Iterator[str]:
    if stage.get("resize_dtype") == "float32" and stage.get("interpolation") == "antialias":
        yield f"{STAGE}.resize_dtype: expected uint8 with interpolation antialias, got float32; correct one of them"
    if stage.get("resize_dtype") == "float32" and network.integers:
        yield f"{STAGE}.resize_dtype: expected uint8 for a graph that takes integers, got float32; correct it"
    if stage.get("letterbox_margin", 0) >= min(network.height, network.width):
        yield (
            f"{STAGE}.letterbox_margin: expected less than the network's shorter side, "
            f"{min(network.height, network.width)}, got {stage['letterbox_margin']}; correct it"
        )


def _normalisation(
    stage: Mapping[str, Any], network: Network, scale: bool, notes: Notes
) -> tuple[list[float] | None, list[float] | None]:
    """Return mean and std per channel in RGB order, (None, None) when the package does not normalise."""
    if not stage.get("normalize", False):
        unused = [key for key in ("mean", "std") if key in stage]
        if unused:
            notes.warnings.append(
                f"{STAGE}.{' and '.join(unused)}: not used, because normalize is not true; set it if the model wants it"
            )
        return None, None
    notes.problems.extend(_normalise_problems(network, scale))
    mean, std = stage.get("mean", IMAGENET_MEAN), stage.get("std", IMAGENET_STD)
    for key, values in (("mean", mean), ("std", std)):
        if len(values) != network.channels:
            numbers = f"{network.channels} number{'s' if network.channels > 1 else ''}"
            notes.problems.append(
                f"{STAGE}.{key}: expected {numbers}, one per channel of the network's input, got {as_json(values)}; "
                "set it"
            )
    return mean, std


def _normalise_problems(network: Network, scale: bool) -> Iterator[str]:
    if network.integers:
        yield (
            f"{STAGE}.normalize: expected false for a graph that takes integers, got true; "
            "set it to false or export the model with a float32 input"
        )
    elif not scale:
        yield (
            f"{STAGE}.normalize: expected image_range_scale true with it (mean and std are for 0..1), "
            "got false; set image_range_scale to true or normalize to false"
        )


def _check_classes(settings: Mapping[str, Any], names: tuple[str, ...], notes: Notes) -> None:
    """Refuse references to classes that do not exist; say when names and count differ."""
    count: int | None = settings.get("num_classes")
    if names and count is not None and len(names) != count:
        fewer = "a class without one is class_<id>" if len(names) < count else "the rest is not used"
        notes.warnings.append(f"{MANIFEST}: detection.class_names: {len(names)} names for {count} classes; {fewer}")
    # A head with a background has a column more than classes, and which one that is, is the package's business.
    columns = None if count is None else count + ("background_class" in settings)
    per_class = list(settings.get("class_thresholds") or {})
    for key, wanted in (("classes", settings.get("classes") or []), ("class_thresholds", per_class)):
        notes.problems.extend(
            f"{MANIFEST}: detection.{key}: expected names or ids of the model's {count or len(names)} classes, "
            f"got {as_json(entry)}; correct it"
            for entry in _unknown(wanted, names, columns)
        )


def _unknown(wanted: Sequence[int | str], names: tuple[str, ...], columns: int | None) -> list[int | str]:
    return [
        entry
        for entry in wanted
        if (entry not in names if isinstance(entry, str) else columns is not None and entry >= columns)
    ]
