"""The table on a terminal: drawn where it fits, plain where numbers would be cut."""

from __future__ import annotations

import io
import re
import sys

import pytest

from convertor.infer.results import Detection, Detections
from convertor.infer.show import show, table_of

RESULT = Detections((Detection("a [red]long[/red] name of a part", 3, 0.5, (1000.25, 0, 1920, 1080.5)),))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, columns: int) -> list[str]:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    show(table_of("a.jpg", (1920, 1080), "parts version 1", RESULT))
    return re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()).splitlines()


@pytest.mark.parametrize("columns", [80, 120])
def test_drawn_where_it_fits(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    lines = shown(monkeypatch, columns)
    assert lines[0] == "a.jpg (1920 x 1080), parts version 1: 1 detection"
    assert "────" in lines[2]
    assert re.search(r"3 +50.0 % +1000.2 +0.0 +1920.0 +1080.5$", lines[3])
    name = "".join(line[:32].split("   ")[0].strip() for line in lines[3:]).replace(" ", "")
    assert name.startswith("a[red]long[/red]nameofapart"[:20])
    assert max(map(len, lines)) <= columns


def test_plain_where_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(monkeypatch, 40)
    assert not any("─" in line for line in lines)
    assert lines[2].split()[-4:] == ["1000.2", "0.0", "1920.0", "1080.5"]
