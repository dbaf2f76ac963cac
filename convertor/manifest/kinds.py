"""What a manifest's value may be: each kind knows what it expects and whether a value is that."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

MAX_CLASS_ID = 65_535


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
    # A whole number may be too large for a float, which math.isfinite would want.
    return _is_whole(value) or (isinstance(value, float) and math.isfinite(value))


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
    # Class names come in every language, with joiners and no-break spaces; what breaks a line or is no character may
    # not get into logs and drawings.
    return (
        isinstance(value, str)
        and value != ""
        and not any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in value)
    )


def _is_class_id(key: str) -> bool:
    return key.isascii() and key.isdigit() and len(key) <= 5 and int(key) <= MAX_CLASS_ID


def _is_names_by_id(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        _is_class_id(key) and _is_text(name) for key, name in cast("Mapping[str, Any]", value).items()
    )


boolean = Kind("true or false", lambda value: isinstance(value, bool))
text = Kind("a text of one line, not empty", _is_text)
block = Kind("an object", lambda value: isinstance(value, Mapping))
blocks = list_of(block, "objects")
side = whole(1, 65_536)
fraction = number(0, 1)
size = either(side, list_of(side, "sides (height, width)", 2, 2))
class_id = whole(0, MAX_CLASS_ID)
class_ids = list_of(class_id, f"class ids (whole numbers from 0 to {MAX_CLASS_ID})")
names = either(
    list_of(text, "names"), Kind(f"an object {{id: name}} with ids from 0 to {MAX_CLASS_ID}", _is_names_by_id)
)
