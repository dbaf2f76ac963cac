"""Compare detections with a reference entry, fairly where the reference itself is undecided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

PIXELS, SCORE = 1.0, 0.02
Row = Sequence[float]


@dataclass
class Comparison:
    """What differs.

    Attributes:
        pixels: Largest difference of a coordinate among matched rows.
        score: Largest difference of a score among matched rows.
        problems: One line per row that has no partner; empty when all is well.
    """

    pixels: float = 0.0
    score: float = 0.0
    problems: list[str] = field(default_factory=list)


def differences(
    entry: dict[str, Any], found: Sequence[Row], pixels: float = PIXELS, score: float = SCORE
) -> Comparison:
    """Match `found` one to one with the entry's detections; rows are [x1, y1, x2, y2, score, class].

    A row listed in `undecided` may be missing, and a found row may be an undecided one; every other row needs a partner
    of its class within `pixels` per coordinate and `score`.
    """
    result = Comparison()
    left = [list(row) for row in found]
    for expected in entry["detections"]:
        partner = _take_partner(expected, left, pixels, score)
        if partner is not None:
            result.pixels = max(result.pixels, _distance(expected, partner))
            result.score = max(result.score, abs(expected[4] - partner[4]))
        elif expected not in entry["undecided"]:
            result.problems.append(f"missing: {expected}")
    optional = [list(row) for row in entry["undecided"]]
    result.problems += [f"unexpected: {row}" for row in left if _take_partner(row, optional, pixels, score) is None]
    return result


def _take_partner(row: Row, candidates: list[list[float]], pixels: float, score: float) -> list[float] | None:
    fitting = [
        candidate
        for candidate in candidates
        if candidate[5] == row[5] and abs(candidate[4] - row[4]) <= score and _distance(row, candidate) <= pixels
    ]
    if not fitting:
        return None
    nearest = min(fitting, key=lambda candidate: _distance(row, candidate))
    candidates.remove(nearest)
    return nearest


def _distance(first: Row, second: Row) -> float:
    return max(abs(a - b) for a, b in zip(first[:4], second[:4]))
