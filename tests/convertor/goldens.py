"""The whole text of what is generated, compared with tests/data/golden.

`UPDATE_GOLDENS=1 pytest tests/convertor/test_plan.py tests/convertor/test_tensors.py` writes the golden files anew; git
shows what changed.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "data" / "golden"


def check_golden(package: str, texts: Mapping[str, str]) -> None:
    """Compare a plan's texts, by path in the repository, with the folder of this name."""
    found = {f"{package}/{path}": text for path, text in texts.items()}
    if os.environ.get("UPDATE_GOLDENS"):
        for path, text in found.items():
            (GOLDEN / path).parent.mkdir(parents=True, exist_ok=True)
            (GOLDEN / path).write_text(text, "utf-8")
    folder = GOLDEN / package
    golden = {f.relative_to(GOLDEN).as_posix(): f.read_text("utf-8") for f in folder.rglob("*") if f.is_file()}
    assert sorted(found) == sorted(golden)
    changed = "\n".join(differences(golden[path], found[path], path) for path in found if found[path] != golden[path])
    assert not changed, f"\n{changed}"


def differences(golden: str, text: str, path: str) -> str:
    lines = (part.splitlines(keepends=True) for part in (golden, text))
    return "".join(difflib.unified_diff(*lines, f"golden/{path}", path))
