"""scripts/check_cases.py: the table is whole, and each kind of fault in it is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.check_cases import CASES, problems, read_rows

ROOT = Path(__file__).resolve().parents[1]
GOOD = "| B01 | axes | `test_it.py::test_a` | decoder, served |"


def test_every_case_has_a_test_that_exists() -> None:
    ran = subprocess.run([sys.executable, ROOT / "scripts/check_cases.py"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "tests/cases.md: 93 cases, each with a test\n")
    assert len(set(CASES)) == len(CASES) == 93


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        pytest.param(GOOD, [], id="good"),
        pytest.param("| case | about | tests | level |", ["B01: no row"], id="missing"),
        pytest.param(f"{GOOD}\n{GOOD}", ["B01: two rows"], id="twice"),
        pytest.param(f"{GOOD}\n{GOOD.replace('B01', 'B02')}", ["B02: no such case"], id="unknown"),
        pytest.param("| B01 | axes |  | served |", ["B01: no test"], id="without a test"),
        pytest.param(
            "| B01 |  | `test_it.py::test_a` | |", ["B01: what it is about is not said", "B01: no level"], id="empty"
        ),
        pytest.param(
            GOOD.replace("served", "soon"),
            ["B01: level 'soon', expected one of convert, load, request, decoder, served"],
            id="level",
        ),
        pytest.param(
            GOOD.replace("test_a", "test_b"), ["B01: no such test: test_it.py::test_b"], id="no such function"
        ),
        pytest.param(
            GOOD.replace("test_a", "no_test"), ["B01: no such test: test_it.py::no_test"], id="no test function"
        ),
        pytest.param(GOOD.replace("it.py", "at.py"), ["B01: no such test: test_at.py::test_a"], id="no such file"),
    ],
)
def test_each_fault_is_found(tmp_path: Path, table: str, expected: list[str]) -> None:
    (tmp_path / "test_it.py").write_text("def test_a(): ...\ndef no_test(): ...\n")
    assert list(problems(read_rows(table), ["B01"], tmp_path)) == expected
