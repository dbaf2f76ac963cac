#!/usr/bin/env python3
"""Check tests/cases.md: every field case has a row, a level and tests that exist.

Prints one line per problem and ends with 1 if there are any. Standard library only.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path("tests/cases.md")
LEVELS = ("convert", "load", "request", "decoder", "served")
# The numbering of the collection has gaps.
CASES = """
B01 B02 B04 B05 B07 B08 B09 B10 B12 B13 B14 B15 B17 B18 B19 B20 B23 B24 B26 B27 B29 B30 B31 B35 B36 B37 B39 B40 B41 B42
B44 B45 B46 B47 B49 B50 B52 B54 B55 B56 B58 B59 B61 B62 B63 B64 B65 B66 B68 B69 B70 B71 B72 B74 B75 B77 B78 B79 B81 B83
B84 B85 B86 B87 B89 B90 B91 B92 B93 B95 B96 B97 B99 B100 B102 B103 B104 B105 B108 B109 B111 B112 B114 B115 B117 B118
B119 B120 B121 B122 B123 B125 B128
""".split()  # noqa: SIM905 - 93 lines otherwise


@dataclass(frozen=True)
class Row:
    """One line of the table: the case, what it is about, its tests (file::function) and its levels."""

    case: str
    about: str
    tests: tuple[str, ...]
    levels: tuple[str, ...]


def read_rows(text: str) -> list[Row]:
    """Return the rows of the table whose first cell is a case."""
    rows: list[Row] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 4 and re.fullmatch(r"B\d+", cells[0]):
            levels = tuple(level.strip() for level in cells[3].split(",") if level.strip())
            rows.append(Row(cells[0], cells[1], tuple(re.findall(r"`([^`]+)`", cells[2])), levels))
    return rows


def problems(rows: Sequence[Row], cases: Sequence[str], root: Path) -> Iterator[str]:
    """Yield one line per problem.

    Args:
        rows: The table.
        cases: The ids that have to be there, each once.
        root: What the tests' paths are relative to.
    """
    found = [row.case for row in rows]
    yield from (f"{case}: no row" for case in cases if case not in found)
    yield from (f"{case}: two rows" for case in sorted(set(found)) if found.count(case) > 1)
    for row in rows:
        if row.case not in cases:
            yield f"{row.case}: no such case"
        if not row.about:
            yield f"{row.case}: what it is about is not said"
        if not row.tests:
            yield f"{row.case}: no test"
        if not row.levels:
            yield f"{row.case}: no level"
        yield from (
            f"{row.case}: level {level!r}, expected one of {', '.join(LEVELS)}"
            for level in row.levels
            if level not in LEVELS
        )
        yield from (f"{row.case}: no such test: {test}" for test in row.tests if not _exists(test, root))


def _exists(test: str, root: Path) -> bool:
    path, _, name = test.partition("::")
    file = root / path
    return file.is_file() and name in _functions(file)


def _functions(file: Path) -> set[str]:
    module = ast.parse(file.read_text("utf-8"))
    return {node.name for node in module.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def main() -> int:
    """Check the table of this checkout; the number of problems decides the exit status."""
    rows = read_rows((ROOT / TABLE).read_text("utf-8"))
    found = list(problems(rows, CASES, ROOT))
    print("\n".join(found) or f"{TABLE}: {len(rows)} cases, each with a test")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
