"""Read back a config.pbtxt that we rendered, without protobuf: a survey must stay cheap.

Only the text format that our templates use is understood; anything else is a ValueError, which the caller takes to mean
that the file is not ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Union

Value = Union[str, "Message"]

_TOKEN = re.compile(r'\s+|#[^\n]*|("(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*|[-+]?[\d.][\w.+-]*|[{}\[\]:,;])')


class Message(dict[str, list[Value]]):
    """One message: each field's values in order; a scalar is its text, a string without its quotes."""

    def texts(self, field: str) -> list[str]:
        """Return the scalar values of a field, [] when it is absent."""
        return [value for value in self.get(field, []) if isinstance(value, str)]

    def messages(self, field: str) -> list[Message]:
        """Return the message values of a field, [] when it is absent."""
        return [value for value in self.get(field, []) if isinstance(value, Message)]


@dataclass(frozen=True)
class Tensor:
    """A declared input or output of a model: `dims` without the batch, -1 where free."""

    name: str
    dims: tuple[int, ...]


def parse(text: str) -> Message:
    """Read one config.pbtxt.

    Raises:
        ValueError: The text is not in the form that we render.
    """
    return _Reader(text).message(end="")


def tensors(config: Message, field: str) -> tuple[Tensor, ...]:
    """Return the tensors under `input` or `output`, in order of name.

    Raises:
        ValueError: A tensor without exactly one name, or with dims that are no numbers.
    """
    found: list[Tensor] = []
    for entry in config.messages(field):
        (name,) = entry.texts("name")
        found.append(Tensor(name, tuple(int(size) for size in entry.texts("dims"))))
    return tuple(sorted(found, key=lambda tensor: tensor.name))


def ensemble_steps(config: Message) -> list[tuple[str, int]]:
    """Return (model name, pinned version) of every step of an ensemble; [] when this is no ensemble.

    Raises:
        ValueError: A step without exactly one model name and one version.
    """
    steps: list[tuple[str, int]] = []
    for scheduling in config.messages("ensemble_scheduling"):
        for step in scheduling.messages("step"):
            (name,), (version,) = step.texts("model_name"), step.texts("model_version")
            steps.append((name, int(version)))
    return steps


class _Reader:
    """A recursive-descent reader; "" stands for the end of the text."""

    def __init__(self, text: str) -> None:
        self._waiting: list[str] = []  # last first
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise ValueError(f"unexpected {text[position]!r}")
            if match.group(1):
                self._waiting.append(match.group(1))
            position = match.end()
        self._waiting.reverse()

    def message(self, end: str) -> Message:
        """Read fields up to the closing `end` and take that too."""
        message = Message()
        while not self._take(end):
            field = self._next()
            if not field[:1].isalpha():
                raise ValueError(f"unexpected {field!r}")
            if not self._take(":") and self._peek() not in ("{", "["):
                raise ValueError(f"{field}: no value")
            message.setdefault(field, []).extend(self._values())
            self._take(",", ";")
        return message

    def _values(self) -> list[Value]:
        if not self._take("["):
            return [self._value()]
        values: list[Value] = []
        while not self._take("]"):
            values.append(self._value())
            self._take(",")
        return values

    def _value(self) -> Value:
        read = self._next()
        if read == "{":
            return self.message(end="}")
        if read in "}[]:,;":  # the end of the text too: "" is in every text
            raise ValueError(f"unexpected {read!r}")
        return read[1:-1] if read.startswith('"') else read

    def _peek(self) -> str:
        return self._waiting[-1] if self._waiting else ""

    def _next(self) -> str:
        return self._waiting.pop() if self._waiting else ""

    def _take(self, *expected: str) -> bool:
        """Take the next token if it is one of `expected`."""
        found = self._peek() in expected
        if found:
            self._next()
        return found
