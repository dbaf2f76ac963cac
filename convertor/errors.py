"""The exceptions people meet.

ConvertorError            a known failure: printed as one line per problem, exit status 1
├── RefusedError          the package, the manifest or the repository cannot be used as asked
└── ServerError           the inference server could not be started, or answered with an error
UsageError                a wrong command line: exit status 2 (raised by the argument parser's users)

Anything else that escapes is a fault of ours and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Sequence

MAX_PROBLEMS = 20
_MAX_LINE = 5000


class ConvertorError(Exception):
    """A known failure, told in one line per problem.

    Args:
        problems: One line each: what, what was found, what was expected; the next step.
    """

    exit_code = 1

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems: tuple[str, ...] = problems

    def lines(self) -> list[str]:
        """Return the lines to print, at most MAX_PROBLEMS and a count of the rest."""
        return [one_line(problem) for problem in first_of(self.problems)]


class RefusedError(ConvertorError):
    """The input cannot be used as it is; nothing was written."""


class ServerError(ConvertorError):
    """The inference server could not be started or did not answer as it should."""


class UsageError(ConvertorError):
    """The command line asks for something that makes no sense."""

    exit_code = 2


def one_line(text: str) -> str:
    """Return a text fit for one line of a terminal: spaces joined, what cannot be printed escaped, the end cut off.

    The cut is for what a package can make arbitrarily long; a path, of 4096 bytes at most, still fits.
    """
    words = " ".join(text.split())
    if len(words) > _MAX_LINE:
        words = f"{words[:_MAX_LINE]}..."
    return "".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in words)


def first_of(lines: Sequence[str]) -> list[str]:
    """Return the first MAX_PROBLEMS lines and, when there are more, how many."""
    rest = len(lines) - MAX_PROBLEMS
    return [*lines[:MAX_PROBLEMS], *([f"... and {rest} more"] if rest > 0 else [])]


def refuse_if(problems: Sequence[str], where: str = "") -> None:
    """Raise RefusedError with every problem, each prefixed with `where: `; do nothing when there is none."""
    if problems:
        prefix = f"{where}: " if where else ""
        raise RefusedError(*(f"{prefix}{problem}" for problem in problems))
