"""What a manifest leaves open: a preset's values, and what the graph says of itself.

Defaults < preset < graph < manifest. The result is a manifest that says all of it, so that whatever reads a manifest
need not know where a value comes from.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from convertor import payload
from convertor.families import Family, find_families
from convertor.manifest.keys import DETECTION
from convertor.manifest.parse import ANOMALY, MANIFEST, Manifest
from convertor.manifest.reader import as_json, unknown_key
from convertor.network import STAGE
from convertor.notes import Notes

# Stage keys that only mean something beside a way of resizing.
OF_LETTERBOX = ("letterbox", "letterbox_margin", "resize_rounding", "pad_value", "box_gain")
OF_RESIZE = ("resize", "preserve_aspect")
Block = Mapping[str, Any]


def settle(manifest: Manifest, family: Family, facts: Block | None, artifact: str, notes: Notes) -> Manifest:
    """Return the manifest with its preset, its decoder's own keys and what the graph says merged beneath its own words.

    Args:
        manifest: As parsed.
        family: The decoder.
        facts: What the graph says of itself, as plain values; None when it says nothing.
        artifact: The artifact's name, for lines.
        notes: Takes a problem for a preset that the decoder does not have, and warnings for keys that nobody reads,
            for what is derived from the graph, and for what the manifest says otherwise.
    """
    preset = _preset(manifest, family, notes)
    stated = {**manifest.detection, **_own_keys(manifest, family, notes)}
    beneath = _detection_beneath(preset.get("detection", {}), manifest)
    known = {**asdict(manifest), "settings": {**family.defaults, **beneath, **stated}}
    derived = family.derive(known, facts) if facts is not None else {}
    notes.warnings.extend(_derived_lines(derived, stated, beneath, artifact))
    return replace(
        manifest,
        stage=_stage(preset.get("stage", {}), manifest, notes),
        detection={**beneath, **derived, **stated},
        further={},
    )


def resize_mode(stage: Block) -> str | None:
    """Return stretch, letterbox or shortest_edge_crop, or None where the stage says none; `resize` wins."""
    if "resize" in stage:
        return stage["resize"]
    if "preserve_aspect" in stage:
        return "letterbox" if stage["preserve_aspect"] else "stretch"
    return None


def _preset(manifest: Manifest, family: Family, notes: Notes) -> Mapping[str, Block]:
    name: str | None = manifest.stage.get("preset")
    if name is None:
        return {}
    if name not in family.presets:
        notes.problems.append(f"{STAGE}.preset: {_unknown_preset(name, family)}")
    return family.presets.get(name, {})


def _unknown_preset(name: str, family: Family) -> str:
    owners = [other.name for other in find_families(payload.POSTPROCESSORS) if name in other.presets]
    got = as_json(name) + (f", a preset of {' and '.join(owners)}" if owners else "")
    if not family.presets:
        return f"expected none, because {family.name} has no presets, got {got}; leave it out"
    nearest = sorted(family.presets, key=lambda known: -difflib.SequenceMatcher(None, name, known).ratio())
    return f"expected a preset of {family.name} ({', '.join(nearest)}), got {got}; correct it"


def _own_keys(manifest: Manifest, family: Family, notes: Notes) -> Block:
    """Return the keys that no other decoder needs; a detector's that this one does not read either are named."""
    if manifest.task != ANOMALY:
        known = [*DETECTION, *(key for key in family.defaults if key not in DETECTION)]
        notes.warnings.extend(
            unknown_key("detection.", key, known) for key in manifest.further if key not in family.defaults
        )
    return {key: value for key, value in manifest.further.items() if key in family.defaults}


def _detection_beneath(preset: Block, manifest: Manifest) -> Block:
    """Return a preset's settings without the threshold that the stage states by its other name."""
    return {
        key: value for key, value in preset.items() if key != "score_threshold" or "threshold" not in manifest.stage
    }


def _derived_lines(derived: Block, stated: Block, beneath: Block, artifact: str) -> Iterator[str]:
    # What is false and what the preset says too is the usual, and not worth a line.
    used = [
        f"{key} {as_json(value)}"
        for key, value in derived.items()
        if key not in stated and (value is not False or beneath.get(key)) and beneath.get(key) != value
    ]
    if used:
        yield f"{artifact}: says of itself: {', '.join(used)}; `detection` may say otherwise"
    for key, value in derived.items():
        if key in stated and stated[key] != value:
            said, other = as_json(stated[key]), as_json(value)
            yield f"{MANIFEST}: detection.{key} says {said}, {artifact} {other}; the manifest wins"


def _stage(preset: Block, manifest: Manifest, notes: Notes) -> Block:
    own = {key: value for key, value in manifest.stage.items() if key != "preset"}
    left_out = set[str]()
    mode = resize_mode(own)
    if mode is not None:
        left_out.update(OF_RESIZE)
        # Another way of resizing does not inherit what belongs to the preset's.
        left_out.update(OF_LETTERBOX if mode != resize_mode(preset) else ())
    if own.get("normalize") is False:
        left_out.update(("mean", "std"))
    beneath = {key: value for key, value in preset.items() if key not in left_out}
    name = manifest.stage.get("preset")
    notes.warnings.extend(
        f"{STAGE}.{key} says {as_json(own[key])}, preset {name} {as_json(value)}; the manifest's own word wins"
        for key, value in preset.items()
        if key in own and own[key] != value
    )
    return {**beneath, **own}
