"""A result for people: a table on a terminal, the same as plain aligned text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from convertor import console
from convertor.errors import one_line
from convertor.infer.results import Detections, Result, Verdict

# Columns that a folded name keeps; columns between two columns of a drawn table.
_LEAST_NAME = 8
_GAP = 3


@dataclass(frozen=True)
class Table:
    """What is shown of one image.

    Attributes:
        title: The image, its size, the model, the result in a few words.
        columns: Headings; empty when there is nothing to list.
        rows: One text per column.
        text_columns: Positions of the columns of names, left-aligned; numbers are right-aligned.
    """

    title: str
    columns: tuple[str, ...] = ()
    rows: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    text_columns: frozenset[int] = frozenset()


def table_of(image: str, size: tuple[int, int], model: str, result: Result) -> Table:
    """Return the table of one image.

    Args:
        image: Its name.
        size: Its width and height, upright.
        model: The model and its version.
        result: What the server said.
    """
    head = f"{one_line(image)} ({size[0]} x {size[1]}), {model}: "
    if isinstance(result, Detections):
        return _detections(head, result)
    return _verdict(head, result)


def _detections(head: str, result: Detections) -> Table:
    count = len(result.objects)
    if not count:
        return Table(head + "nothing detected")
    rows = [
        (
            one_line(found.label),
            str(found.class_id),
            _percent(found.confidence),
            *(f"{side:.1f}" for side in found.box),
        )
        for found in result.objects
    ]
    title = f"{head}{count} detection{'s' if count > 1 else ''}"
    return Table(title, ("label", "class", "confidence", "x1", "y1", "x2", "y2"), rows, frozenset({0}))


def _verdict(head: str, verdict: Verdict) -> Table:
    title = f"{head}{one_line(verdict.label)}, score {verdict.score:.4f}, confidence {_percent(verdict.confidence)}"
    if not verdict.classes:
        return Table(title)
    rows = [(one_line(region.name), _percent(region.area, 2), one_line(region.color)) for region in verdict.classes]
    return Table(title, ("class", "area", "colour"), rows, frozenset({0, 2}))


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def show(table: Table) -> None:
    """Print a table on stdout: drawn on a terminal, else plain."""
    if not (sys.stdout.isatty() and _draw(table)):
        console.say(*plain_lines(table), "")


def plain_lines(table: Table) -> list[str]:
    """Return a table as aligned text, two blanks between columns; as wide as its longest cells."""
    if not table.columns:
        return [table.title]
    lines = [table.columns, *table.rows]
    widths = [max(_cells(line[place]) for line in lines) for place in range(len(table.columns))]
    return [table.title, *("  " + _aligned(line, widths, table.text_columns).rstrip() for line in lines)]


def _aligned(line: Sequence[str], widths: Sequence[int], left: frozenset[int]) -> str:
    padded: list[str] = []
    for place, (cell, width) in enumerate(zip(line, widths)):
        blanks = " " * (width - _cells(cell))
        padded.append(cell + blanks if place in left else blanks + cell)
    return "  ".join(padded)


def _cells(text: str) -> int:
    from rich.cells import cell_len  # Chinese characters, for instance, take two columns

    return cell_len(text)


def _draw(table: Table) -> bool:
    """Draw a table; return False, having drawn nothing, where its numbers would have to be cut."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as Drawn
    from rich.text import Text

    terminal = Console(highlight=False)
    drawn = Drawn(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim")
    needed = 0
    for place, name in enumerate(table.columns):
        left = place in table.text_columns
        # Names may be folded, down to a few letters; numbers never.
        width = max(_cells(line[place]) for line in (table.columns, *table.rows))
        least = min(width, _LEAST_NAME) if left else width
        drawn.add_column(name, justify="left" if left else "right", overflow="fold", min_width=least, no_wrap=not left)
        needed += least + _GAP
    if needed - _GAP > terminal.width:
        return False
    # Names come from files and from the server: as Text, brackets in them are no markup.
    terminal.print(Text(table.title, style="bold"))
    for row in table.rows:
        drawn.add_row(*(Text(cell) for cell in row))
    if table.columns:
        terminal.print(drawn)
    terminal.print()
    return True
