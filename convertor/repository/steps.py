"""Effects as a list of named steps, so that a failure can be undone and a test can stop anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass


def nothing() -> None:
    """Undo nothing."""


@dataclass(frozen=True)
class Step:
    """One step of a publish; `undo` may run after a `do` that failed half-way, and does nothing then."""

    name: str
    do: Callable[[], object]
    undo: Callable[[], object] = nothing


def run_step(step: Step) -> None:
    """Do one step; the one place through which every effect goes."""
    step.do()


def run(steps: Iterable[Step]) -> None:
    """Do the steps in order; when one fails, undo those begun, last first, and raise what it raised."""
    begun: list[Step] = []
    try:
        for step in steps:
            begun.append(step)
            run_step(step)
    except BaseException:
        for step in reversed(begun):
            with suppress(OSError):
                step.undo()
        raise
