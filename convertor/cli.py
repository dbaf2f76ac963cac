"""The command line. `convert` is the main job and a console script of its own; `convertor` holds every command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from . import convert_command
from .errors import ConvertorError
from .version import version

INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaint is one line and where to read on."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and exit with status 2."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run `convertor`; return its exit status: 0 done, 1 refused, 2 usage."""
    return _guarded(_run_convertor, sys.argv[1:] if argv is None else list(argv))


def convert_main(argv: Sequence[str] | None = None) -> int:
    """Run `convert`; return its exit status."""
    return _guarded(_run_convert, sys.argv[1:] if argv is None else list(argv))


def _run_convertor(argv: list[str]) -> int:
    parser = Parser(prog="convertor", description="Put a vision model on a stock Triton Inference Server.")
    parser.add_argument("--version", action="version", version=f"convertor {version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    convert_command.add_arguments(
        commands.add_parser("convert", help="package -> model repository", description=convert_command.DESCRIPTION)
    )
    _add_serve(commands)
    arguments, unknown = parser.parse_known_args(argv)
    if unknown and not getattr(arguments, "accepts_unknown", False):
        parser.error(f"unknown arguments: {' '.join(unknown)}")
    return arguments.run(arguments, unknown)


def _run_convert(argv: list[str]) -> int:
    parser = Parser(prog="convert", description=convert_command.DESCRIPTION)
    convert_command.add_arguments(parser)
    arguments = parser.parse_args(argv)
    return arguments.run(arguments, [])


def _add_serve(commands: argparse._SubParsersAction[Parser]) -> None:  # pyright: ignore[reportPrivateUsage]
    from .serve import command

    command.add_parser(commands)


def _guarded(run: Callable[[list[str]], int], argv: list[str]) -> int:
    """Turn known failures into lines on stderr; anything unknown keeps its traceback."""
    try:
        status = run(argv)
        sys.stdout.flush()
    except ConvertorError as error:
        for line in error.lines():
            print(f"error: {line}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)  # noqa: T201
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone: not a failure, and the interpreter must not complain at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status
