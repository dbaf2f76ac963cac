"""Read JSON blocks against tables of keys: every problem at once, likely typing errors in keys named."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from convertor.errors import RefusedError
from convertor.listing import shown
from convertor.manifest.keys import Keys

MANIFEST = "manifest.json"
Block = Mapping[str, Any]
# Two edits are a typing error in a word of four letters or more; "id" is not meant to be "std".
_EDITS = 2


@dataclass
class Reader:
    """Collects problems (without the file's name) and warnings (with it) while blocks are read."""

    problems: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])

    def load(self, data: bytes) -> Block:
        """Return the JSON object in `data`.

        Raises:
            RefusedError: Not UTF-8 (a byte order mark is accepted), not JSON, or not an object.
        """
        try:
            # -sig: Windows tools begin a file with a byte order mark.
            content = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise RefusedError(f"{MANIFEST}: not UTF-8 (byte {error.start}); save it as UTF-8") from error
        try:
            value: object = json.loads(content, parse_constant=_refuse_constant, object_pairs_hook=self._object)
        except RecursionError as error:
            raise RefusedError(f"{MANIFEST}: nested too deeply; correct it") from error
        except ValueError as error:
            raise RefusedError(f"{MANIFEST}: not JSON: {error}; correct it") from error
        if not isinstance(value, Mapping):
            raise RefusedError(f"{MANIFEST}: expected a JSON object, got {as_json(value)}; see docs/manifest.md")
        return cast("Block", value)

    def block(self, raw: Block, known: Keys, path: str, warn: bool = False) -> dict[str, Any]:
        """Return the values of `known` that `raw` has and that are of their kind; null counts as absent.

        Args:
            raw: The block as it was given.
            known: Every key that is read.
            path: What its keys are called in lines: "detection.".
            warn: Name every unknown key, because the block is ours alone; otherwise only near misses.
        """
        values: dict[str, Any] = {}
        for key, value in raw.items():
            kind = known.get(key)
            if kind is None:
                if warn or _is_near(key, known):  # real manifests carry much that is not ours
                    self.warnings.append(unknown_key(path, key, known))
            elif value is None:
                continue
            elif kind.accepts(value):
                values[key] = value
            else:
                self.problems.append(f"{path}{key}: expected {kind.expected}, got {as_json(value)}; correct it")
        return values

    def _object(self, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in pairs:
            if key in values:
                self.warnings.append(f"{MANIFEST}: {shown(key)}: is there twice in one object, the last one counts")
            values[key] = value
        return values


def as_json(value: object) -> str:
    """Return a value as JSON, short enough for a line and safe to print."""
    written = shown(json.dumps(value, ensure_ascii=False))
    return written if len(written) <= 60 else f"{written[:57]}..."


def unknown_key(path: str, key: str, known: Iterable[str]) -> str:
    """Return the line for a key that nobody reads, with the known one that was likely meant."""
    known = list(known)
    near = min(known, key=lambda candidate: _distance(key, candidate))
    if not _is_near(key, [near]):
        near = next(iter(difflib.get_close_matches(key, known, 1)), "")
    hint = f"did you mean {near}?" if near else f"known keys: {', '.join(known)}"
    return f"{MANIFEST}: {path}{shown(key)}: unknown key, ignored; {hint}"


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is not a JSON number")


def _is_near(key: str, known: Iterable[str]) -> bool:
    distance = min(_distance(key, candidate) for candidate in known)
    return distance <= _EDITS and 2 * distance <= len(key)


def _distance(one: str, other: str) -> int:
    """Return how many letters to insert, drop or replace (Levenshtein), or any number over _EDITS."""
    if abs(len(one) - len(other)) > _EDITS:
        return _EDITS + 1
    row = list(range(len(other) + 1))
    for index, letter in enumerate(one, 1):
        above, row = row, [index]
        for column, candidate in enumerate(other, 1):
            row.append(min(above[column] + 1, row[-1] + 1, above[column - 1] + (letter != candidate)))
    return row[-1]
