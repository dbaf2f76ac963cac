"""docs/manifest.md: its tables are the tables of the code, its examples convert, its defaults are the defaults."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from convertor import payload
from convertor.families import Family, find_families
from convertor.manifest import keys
from convertor.settings import RESIZE_DEFAULTS
from tests.convertor.conversions import prepared
from tests.convertor.manifest_tables import DOCUMENT as PATH
from tests.convertor.manifest_tables import regenerated, without_generated
from tests.convertor.packages import onnx_bytes

DOCUMENT = PATH.read_text("utf-8")
ROW = re.compile(r"^\| `(\w+)` \| (.*?) \| (.*?) \|", re.MULTILINE)


def tables() -> list[dict[str, tuple[str, str]]]:
    """Every table written by hand, in order: key -> its next two cells."""
    found = re.findall(r"(?:^\|.*\n)+", without_generated(DOCUMENT), re.MULTILINE)
    return [{key: (value, more) for key, value, more in ROW.findall(table)} for table in found]


def expected(known: keys.Keys, *without: keys.Keys) -> dict[str, str]:
    return {key: kind.expected for key, kind in known.items() if not any(key in other for other in without)}


def test_every_key_is_there_with_its_type_and_range() -> None:
    assert [{key: cells[0] for key, cells in table.items()} for table in tables()] == [
        expected(keys.TOP),
        expected(keys.DETECTION),
        expected(keys.ANOMALY_GRAPH),
        expected(keys.CLASS_LIST),
        expected(keys.STAGE),
        expected(keys.DETECTION_STAGE, keys.DETECTION, keys.STAGE),
        expected(keys.ANOMALY_STAGE, keys.STAGE),
        expected(keys.OUTPUT),
        expected(keys.DATASET),
        expected(keys.SERVING),
        expected(keys.EXECUTION),
    ]


def test_what_the_decoders_say_is_what_they_say_now() -> None:
    assert regenerated(DOCUMENT) == DOCUMENT, "run: python -m tests.convertor.manifest_tables"


def test_the_defaults_of_resizing_are_those_of_the_code() -> None:
    (stage,) = [table for table in tables() if "letterbox" in table]
    assert {key: stage[key][1].strip("`") for key in RESIZE_DEFAULTS} == {
        key: str(value) for key, value in RESIZE_DEFAULTS.items()
    }


def test_every_task_is_named() -> None:
    tasks = re.search(r"### Tasks\n\n(.*)", DOCUMENT)
    assert tasks is not None
    assert re.findall(r"`(\w+)`", tasks[1]) == list(keys.TASKS)


@pytest.mark.parametrize("family", find_families(payload.POSTPROCESSORS), ids=lambda family: family.name)
def test_presets_only_say_what_a_manifest_may_say(family: Family) -> None:
    for preset in family.presets.values():
        assert set(preset) <= {"stage", "detection"}
        for key, value in preset.get("stage", {}).items():
            assert keys.STAGE[key].accepts(value), key
        for key, value in preset.get("detection", {}).items():
            assert key in family.defaults
            assert key not in keys.DETECTION or value is None or keys.DETECTION[key].accepts(value), key
        # Left to the default, it would be the capture world's: area.
        assert "interpolation" in preset.get("stage", {"interpolation": None})


@pytest.mark.parametrize(
    ("index", "outputs"), [(0, {"output0": (1, 7, 21)}), (1, {"score": (1, 2), "map": (1, 2, 64, 64)})]
)
def test_the_examples_convert_without_a_warning(
    tmp_path: Path, index: int, outputs: dict[str, tuple[int, ...]]
) -> None:
    examples = re.findall(r"```json\n(.*?)```", DOCUMENT, re.DOTALL)
    assert len(examples) == 2
    files = {"model.onnx": onnx_bytes(outputs=outputs)}
    assert prepared(tmp_path, json.loads(examples[index]), files).warnings == ()


def test_the_line_that_is_shown_is_the_line_that_is_printed() -> None:
    line = f'manifest.json: detection.top_k: expected {keys.DETECTION["top_k"].expected}, got "many"; correct it'
    assert line in DOCUMENT
