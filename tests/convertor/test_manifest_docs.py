"""docs/manifest.md: its tables are the tables of the code, its examples convert, its defaults are the defaults."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from convertor import payload
from convertor.families import Family, find_families
from convertor.manifest import keys
from tests.convertor.conversions import prepared
from tests.convertor.packages import onnx_bytes

DOCUMENT = (Path(__file__).parents[2] / "docs" / "manifest.md").read_text("utf-8")
ROW = re.compile(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*?) \|", re.MULTILINE)


def tables() -> list[dict[str, tuple[str, str, str]]]:
    """Every table in order: key -> its next three cells."""
    found = re.findall(r"(?:^\|.*\n)+", DOCUMENT, re.MULTILINE)
    return [{key: (value, default, more) for key, value, default, more in ROW.findall(table)} for table in found]


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


@pytest.mark.parametrize("family", find_families(payload.POSTPROCESSORS), ids=lambda family: family.name)
def test_a_family_that_is_named_as_reader_reads_the_key_with_that_default(family: Family) -> None:
    for key, (_, default, readers) in tables()[1].items():
        if family.name not in readers.split(", "):
            continue
        assert key in family.defaults
        own = re.search(rf"(\S+) \({family.name}\)", default)
        said = own.group(1) if own else default.strip("`")
        value = family.defaults[key]
        if value is not None:
            assert said == (json.dumps(value) if not isinstance(value, str) else value)


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
