"""What a manifest's value may be: each kind knows what it expects and whether a value is that."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast


@dataclass(frozen=True)
class Kind:
    """A sort of JSON value.

    Attributes:
        expected: How the kind is called in a refusal: "a number from 0 to 1".
        accepts: Whether a JSON value is of this kind.
    """

    expected: str
    accepts: Callable[[Any], bool]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def number(low: float, high: float) -> Kind:
    """Return the kind of the numbers from `low` to `high`, both included."""
    return Kind(f"a number from {low:g} to {high:g}", lambda value: _is_number(value) and low <= value <= high)


def whole(low: int, high: int) -> Kind:
    """Return the kind of the whole numbers from `low` to `high`, both included."""
    return Kind(f"a whole number from {low} to {high}", lambda value: _is_whole(value) and low <= value <= high)


def choice(*words: str) -> Kind:
    """Return the kind of a few words."""
    return Kind(f"one of {', '.join(words)}", lambda value: value in words)


def either(first: Kind, second: Kind) -> Kind:
    """Return the kind of what is of one kind or of the other."""
    return Kind(f"{first.expected} or {second.expected}", lambda value: first.accepts(value) or second.accepts(value))


def list_of(item: Kind, plural: str, low: int = 0, high: int = 100_000) -> Kind:
    """Return the kind of a JSON list of `low` to `high` items."""
    count = f"{low} " if low == high else ""
    return Kind(
        f"a list of {count}{plural}",
        lambda value: (
            isinstance(value, list)
            and low <= len(cast("list[Any]", value)) <= high
            and all(item.accepts(entry) for entry in cast("list[Any]", value))
        ),
    )


def map_of(item: Kind, described: str) -> Kind:
    """Return the kind of a JSON object whose values are all of one kind."""
    return Kind(
        described,
        lambda value: (
            isinstance(value, Mapping)
            and all(item.accepts(entry) for entry in cast("Mapping[str, Any]", value).values())
        ),
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != "" and value.isprintable()


boolean = Kind("true or false", lambda value: isinstance(value, bool))
text = Kind("a non-empty text", _is_text)
block = Kind("an object", lambda value: isinstance(value, Mapping))
blocks = list_of(block, "objects")
side = whole(1, 65_536)
fraction = number(0, 1)
size = either(side, list_of(side, "sides (height, width)", 2, 2))
names = either(list_of(text, "names"), map_of(text, "an object {id: name}"))
