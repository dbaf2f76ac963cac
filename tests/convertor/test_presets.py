"""A preset, what the graph says of itself, and a decoder's own keys: what goes before what, and what is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from convertor import payload
from convertor.families import Family, find_families, owner_of
from convertor.manifest.parse import Manifest
from convertor.network import Network
from convertor.notes import Notes
from convertor.presets import settle
from convertor.settings import decode_settings, preprocess_settings
from tests.convertor.manifests import parse

STAGE = "manifest.json: model_graph.stages[0]"
SUPPORT = """
NAMES = frozenset({"centre"})
TASKS = frozenset({"object_detection"})
DEFAULTS = {"num_classes": None, "score_threshold": 0.5, "end_to_end": None, "compare": "greater_equal", "reach": 7}
PRESETS = {
    "vendor": {
        "stage": {"resize": "letterbox", "letterbox": "top_left", "interpolation": "linear", "normalize": True,
                  "mean": [0.5] * 3, "std": [0.25] * 3},
        "detection": {"score_threshold": 0.1, "compare": "greater", "reach": 9},
    },
    "vendor-2": {"detection": {"reach": 2}},
    "other": {},
}


def check(manifest, facts):
    return []


def derive(manifest, facts):
    # It is told what is known before it: the defaults, the preset and the manifest's own words.
    return {"end_to_end": facts["end2end"], "compare": "greater" if manifest["settings"]["reach"] else "greater_equal"}
"""
PLAIN = """
NAMES = frozenset({"plain"})
TASKS = frozenset({"object_detection"})
DEFAULTS = {"score_threshold": 0.5}
PRESETS = {}


def check(manifest, facts):
    return []
"""
ANOMALY = """
NAMES = frozenset({"anomaly"})
TASKS = frozenset({"anomaly"})
DEFAULTS = {"threshold": 0.5, "pixel_class_names": [], "seg_threshold": 0.5}
PRESETS = {"lib": {"stage": {"interpolation": "antialias"}, "detection": {"threshold": 0.25, "seg_threshold": 0.75}}}


def check(manifest, facts):
    return []
"""
Seen = dict[str, Any]


@pytest.fixture(autouse=True)
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, support in (("centre", SUPPORT), ("plain", PLAIN), ("anomaly", ANOMALY)):
        folder = tmp_path / "postprocessors" / name
        folder.mkdir(parents=True)
        (folder / "support.py").write_text(support)
    monkeypatch.setattr(payload, "POSTPROCESSORS", tmp_path / "postprocessors")


def family(name: str) -> Family:
    found = owner_of(name, find_families(payload.POSTPROCESSORS))
    assert found is not None
    return found


def manifest(stage: dict[str, Any], detection: dict[str, Any], task: str = "object_detection") -> Manifest:
    return parse({"task": task, "detection": detection, "model_graph": {"stages": [stage]}})


def settled(
    stage: dict[str, Any], detection: dict[str, Any] | None = None, decoder: str = "centre", facts: Any = None
) -> tuple[Seen, Seen, Notes]:
    """What model.json's `preprocess` and `decode` would be."""
    notes = Notes()
    task = "anomaly" if decoder == "anomaly" else "object_detection"
    one = settle(manifest(stage, detection or {}, task), family(decoder), facts, "model.onnx", notes)
    preprocess = preprocess_settings(one, Network(64, 64, 3, "NCHW"), notes)
    return preprocess, decode_settings(one, family(decoder), (), notes), notes


def test_a_preset_stands_between_the_defaults_and_the_manifest() -> None:
    preprocess, decode, notes = settled({"preset": "vendor"}, {"reach": 3})
    said = {key: preprocess[key] for key in ("preserve_aspect", "letterbox", "interpolation", "mean", "std")}
    assert said == {
        "preserve_aspect": True,
        "letterbox": "top_left",
        "interpolation": "linear",
        "mean": [0.5] * 3,
        "std": [0.25] * 3,
    }
    assert decode == {
        "num_classes": None,
        "score_threshold": 0.1,
        "end_to_end": None,
        "compare": "greater",
        "reach": 3,
    }
    assert notes == Notes()


def test_a_preset_may_leave_out_either_half() -> None:
    preprocess, decode, _ = settled({"preset": "vendor-2"})
    assert (preprocess["interpolation"], decode["reach"]) == ("area", 2)
    assert settled({"preset": "other"})[:2] == settled({})[:2]


@pytest.mark.parametrize(
    ("stage", "detection", "expected"),
    [
        pytest.param({}, {}, 0.1, id="the preset's"),
        pytest.param({"threshold": 0.4}, {}, 0.4, id="the stage's threshold is the manifest's own"),
        pytest.param({"threshold": 0.4}, {"score_threshold": 0.6}, 0.6, id="detection before it"),
        pytest.param({"score_threshold": 0.7}, {"score_threshold": 0.6}, 0.7, id="the stage's own"),
    ],
)
def test_thresholds(stage: dict[str, Any], detection: dict[str, Any], expected: float) -> None:
    assert settled({"preset": "vendor", **stage}, detection)[1]["score_threshold"] == expected


@pytest.mark.parametrize(
    ("stage", "expected", "told"),
    [
        pytest.param({"preserve_aspect": False}, (False, None, False), False, id="stretch, the old word"),
        pytest.param({"resize": "stretch"}, (False, None, False), True, id="stretch"),
        pytest.param({"resize": "shortest_edge_crop"}, (False, None, True), True, id="crop"),
        pytest.param({"preserve_aspect": True}, (True, "top_left", False), False, id="the same, the old word"),
        pytest.param({"resize": "letterbox"}, (True, "top_left", False), False, id="the same"),
        pytest.param({"letterbox": "centre"}, (True, None, False), True, id="one key of it"),
    ],
)
def test_a_stage_that_resizes_otherwise(
    stage: dict[str, Any], expected: tuple[bool, str | None, bool], told: bool
) -> None:
    preprocess, _, notes = settled({"preset": "vendor", **stage})
    found = preprocess["preserve_aspect"], preprocess.get("letterbox"), preprocess.get("crop", False)
    assert found == expected
    assert len(notes.warnings) == told


def test_what_the_manifest_says_otherwise_is_told() -> None:
    preprocess, _, notes = settled({"preset": "vendor", "interpolation": "area", "normalize": False})
    assert (preprocess["interpolation"], preprocess["mean"]) == ("area", None)
    assert notes.warnings == [
        f'{STAGE}.interpolation says "area", preset vendor "linear"; the manifest\'s own word wins',
        f"{STAGE}.normalize says false, preset vendor true; the manifest's own word wins",
    ]


@pytest.mark.parametrize(
    ("decoder", "name", "line"),
    [
        pytest.param(
            "centre",
            "vendor2",
            'expected a preset of centre (vendor-2, vendor, other), got "vendor2"; correct it',
            id="nearest first",
        ),
        pytest.param(
            "centre",
            "lib",
            'expected a preset of centre (vendor, vendor-2, other), got "lib", a preset of anomaly; correct it',
            id="of another decoder",
        ),
        pytest.param(
            "plain",
            "vendor",
            'expected none, because plain has no presets, got "vendor", a preset of centre; leave it out',
            id="a decoder without",
        ),
    ],
)
def test_an_unknown_preset_is_one_line(decoder: str, name: str, line: str) -> None:
    assert settled({"preset": name}, decoder=decoder)[2].problems == [f"{STAGE}.preset: {line}"]


def test_what_the_graph_says_stands_between_the_preset_and_the_manifest() -> None:
    _, decode, notes = settled({}, facts={"end2end": True})
    assert (decode["end_to_end"], decode["compare"]) == (True, "greater")
    assert notes.warnings == [
        'model.onnx: says of itself: end_to_end true, compare "greater"; `detection` may say otherwise'
    ]


def test_what_the_graph_says_goes_before_the_preset() -> None:
    _, decode, notes = settled({"preset": "vendor"}, {"reach": 0}, facts={"end2end": False})
    assert decode["compare"] == "greater_equal"
    assert len(notes.warnings) == 1


def test_what_the_manifest_says_otherwise_than_the_graph_is_told() -> None:
    _, decode, notes = settled({"preset": "vendor"}, {"end_to_end": False}, facts={"end2end": True})
    assert (decode["end_to_end"], decode["compare"]) == (False, "greater")
    assert notes.warnings == [
        "manifest.json: detection.end_to_end says false, model.onnx true; the manifest wins",
    ]


def test_the_usual_is_not_told() -> None:
    _, decode, notes = settled({"preset": "vendor"}, facts={"end2end": False})
    assert decode["end_to_end"] is False
    assert notes.warnings == []


def test_derive_knows_what_the_manifest_says() -> None:
    assert settled({}, {"reach": 0}, facts={"end2end": False})[1]["compare"] == "greater_equal"


def test_a_graph_that_says_nothing_is_not_asked() -> None:
    assert settled({})[1]["end_to_end"] is None
    assert settled({}, decoder="plain", facts={"end2end": True})[1] == {"score_threshold": 0.5}


def test_a_key_that_only_this_decoder_knows_reaches_it() -> None:
    _, decode, notes = settled({}, {"reach": {"any": ["kind"]}})
    assert decode["reach"] == {"any": ["kind"]}
    assert notes.warnings == []


def test_a_key_that_nobody_knows_is_named_with_the_decoders_own_in_mind() -> None:
    _, decode, notes = settled({}, {"raech": 1, "iou_treshold": 0.5, "zzz": None})
    assert decode["reach"] == 7
    assert notes.warnings == [
        "manifest.json: detection.raech: unknown key, ignored; did you mean reach?",
        "manifest.json: detection.iou_treshold: unknown key, ignored; did you mean iou_threshold?",
    ]


def test_a_key_of_another_decoder_is_named() -> None:
    (line,) = settled({}, {"reach": 1}, decoder="plain")[2].warnings
    assert line.startswith("manifest.json: detection.reach: unknown key, ignored; ")


def test_an_anomaly_models_stage_has_presets_and_further_keys_too() -> None:
    preprocess, decode, notes = settled({"preset": "lib", "seg_threshold": 0.6, "codename": "x"}, decoder="anomaly")
    assert preprocess["interpolation"] == "antialias"
    assert decode == {"threshold": 0.25, "pixel_class_names": [], "seg_threshold": 0.6}
    assert notes == Notes()
    assert settled({"preset": "lib", "threshold": 0.7}, decoder="anomaly")[1]["threshold"] == 0.7
