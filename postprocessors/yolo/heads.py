"""Recognises what a one-tensor head `[B, a, b]` is: which axis the channels are, and what they mean.

The rule, in order; overrides in the manifest (`channels_first`, `objectness`, `end_to_end`) take readings away first.
1. Channels. With C classes and E channels that the task explains (0 for plain boxes), an axis of 4 + C + E holds class
   scores, one of 5 + C + E objectness too, and a last axis of 6 + E is an end-to-end row (box, score, class).
   If one reading is left, that is it; if none is, the head is refused.
2. Anchors. If the other axis is as long as the network's size gives anchors (strides 8, 16, 32 go first), that wins.
3. Rows. If an end-to-end reading is left, the numbers decide: scores that fall, classes that are whole numbers.
4. Convention. Class scores with the channels first (Ultralytics), then objectness with the channels last (YOLOv5).

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..contract import Array
from .candidates import SCORE_SLACK

# Strides of the feature maps: P3 to P5, which most have; with P6, with P2, with both, tiny ones, P2 to P4, P4 to P6.
STRIDES = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32), (4, 8, 16, 32, 64), (16, 32), (4, 8, 16), (16, 32, 64))
ANCHORS_PER_CELL = (1, 3)


class Reading(NamedTuple):
    """One way to read a head.

    Attributes:
        objectness: A channel of objectness stands before the class scores.
        end_to_end: Rows of box, score, class; suppressed or ranked in the graph.
        channels_first: `[B, channels, N]`; else `[B, N, channels]`.
        extras: How many channels stand behind.
    """

    objectness: bool
    end_to_end: bool
    channels_first: bool
    extras: int


class HeadRule:
    """The rule above for one package.

    Args:
        classes: How many classes the package states.
        settings: `objectness`, `end_to_end`, `channels_first`: true, false, or null where the rule decides.
        corners: Whether the boxes of end-to-end rows are corners; else they are centres and sides.
    """

    def __init__(self, classes: int, settings: Mapping[str, Any], corners: bool = True) -> None:
        self.classes = classes
        self._corners = corners
        self._overrides = {key: settings.get(key) for key in ("objectness", "end_to_end", "channels_first")}

    def readings(self, shape: Sequence[int], extras: Sequence[int]) -> list[Reading]:
        """Return every way to read a head of this shape, in the order of convention; none for another rank."""
        if len(shape) != 3:
            return []
        found = [reading for extra in extras for reading in self._of_extra(shape, extra)]
        return sorted(dict.fromkeys(found), key=_convention)

    def _of_extra(self, shape: Sequence[int], extra: int) -> Iterator[Reading]:
        for channels_first, width in ((True, shape[1]), (False, shape[2])):
            for reading, expected in (
                (Reading(False, False, channels_first, extra), 4 + self.classes + extra),
                (Reading(True, False, channels_first, extra), 5 + self.classes + extra),
                (Reading(False, True, channels_first, extra), 6 + extra),
            ):
                possible = width == expected and not (reading.end_to_end and channels_first)
                if possible and self._allowed(reading):
                    yield reading

    def _allowed(self, reading: Reading) -> bool:
        wanted = self._overrides
        if wanted["end_to_end"] is not None and wanted["end_to_end"] != reading.end_to_end:
            return False
        if reading.end_to_end:
            # Rows have neither objectness nor another axis to choose.
            return wanted["end_to_end"] is True or (wanted["objectness"] is None and wanted["channels_first"] is None)
        return all(wanted[key] in (None, getattr(reading, key)) for key in ("objectness", "channels_first"))

    def expected(self, extra: int) -> str:
        """Return what channel counts are accepted with so many extra ones, for a message."""
        behind = f" and {extra} behind them" if extra else ""
        stated = ", ".join(f"{key} {value}".lower() for key, value in self._overrides.items() if value is not None)
        return (
            f"{4 + self.classes + extra} or {5 + self.classes + extra} channels for num_classes={self.classes}{behind} "
            f"(or {6 + extra} for end-to-end rows{', with ' + stated if stated else ''})"
        )

    def choose(self, head: Array, readings: Sequence[Reading], network: tuple[int, int]) -> Reading:
        """Return which of several readings (not empty) the head is.

        Args:
            head: The tensor.
            readings: What `readings` says of its shape.
            network: (height, width) of the network's input.
        """
        if len(readings) == 1:
            return readings[0]
        for legal in (anchor_counts(network, STRIDES[:1]), anchor_counts(network)):
            fitting = [r for r in readings if not r.end_to_end and head.shape[2 if r.channels_first else 1] in legal]
            if fitting:
                return fitting[0]
        rows = [reading for reading in readings if reading.end_to_end]
        if rows and self._looks_end_to_end(head):
            return rows[0]
        return next((reading for reading in readings if not reading.end_to_end), readings[0])

    def _looks_end_to_end(self, rows: Array) -> bool:
        """Return whether the columns 4 and 5 of [B, K, 6 + E] can be falling scores and class numbers.

        Padding tells nothing but that it stands last, and rows that hold no number tell nothing at all.
        """
        front = rows[..., :6].astype(np.float32)
        known = np.isfinite(front).all(axis=2)
        scores = np.maximum(front[..., 4], 0)
        used = front[known & (scores > 0)]
        if not len(used):
            return False
        falling = all((np.diff(row[finite]) <= 0).all() for row, finite in zip(scores, known))
        ids = used[:, 5]
        whole = (ids == np.floor(ids)).all() and ids.min() >= 0 and ids.max() < self.classes
        # A weak row may be turned inside out: nothing keeps a graph's distances positive.
        has_sides = (used[:, 2:4] >= (used[:, :2] if self._corners else 0)).all(axis=1).mean() >= 0.5
        return bool(falling and whole and has_sides and used[:, 4].max() <= 1 + SCORE_SLACK)


def anchor_counts(network: tuple[int, int], maps: Sequence[Sequence[int]] = STRIDES) -> frozenset[int]:
    """Return how many anchors heads have for a network input of (height, width): cells of all maps, times anchors."""
    counts: set[int] = set()
    for strides in maps:
        cells = sum(-(-network[0] // stride) * -(-network[1] // stride) for stride in strides)
        counts.update(cells * per_cell for per_cell in ANCHORS_PER_CELL)
    return frozenset(counts)


def _convention(reading: Reading) -> tuple[bool, bool, bool]:
    # Channels first for plain scores and last for objectness come before their opposites.
    return reading.end_to_end, reading.channels_first == reading.objectness, reading.objectness
