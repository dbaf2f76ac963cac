"""The command line. `convert` is the main job and a console script of its own; `convertor` holds every command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from convertor import console, convert_command
from convertor.errors import ConvertorError

DESCRIPTION = "Put a vision model on a stock Triton Inference Server."
EPILOG = """\
examples:
  convertor convert detector.zip -o model_repository
  convertor serve model_repository
  convertor infer detector image.jpg

`convertor COMMAND --help` says more. `convert` is `convertor convert`."""
INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaint is one line and where to read on."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and exit with status 2."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


class _ShowVersion(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from convertor.version import version

        console.say(f"{parser.prog} {version()}")
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Run `convertor`; return its exit status: 0 done, 1 refused, 2 usage."""
    return _guarded(_run_convertor, sys.argv[1:] if argv is None else list(argv))


def convert_main(argv: Sequence[str] | None = None) -> int:
    """Run `convert`; return its exit status."""
    return _guarded(_run_convert, sys.argv[1:] if argv is None else list(argv))


def _run_convertor(argv: list[str]) -> int:
    from convertor.infer import command as infer_command  # `convert` alone needs neither
    from convertor.serve import command as serve_command

    parser = _parser("convertor", DESCRIPTION, EPILOG)
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="print the version")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    convert_command.add_arguments(
        commands.add_parser(
            "convert",
            help="turn packages into a model repository",
            description=convert_command.DESCRIPTION,
            epilog=convert_command.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
    )
    serve_command.add_parser(commands)
    infer_command.add_parser(commands)
    arguments, unknown = parser.parse_known_args(argv)
    if unknown and not getattr(arguments, "accepts_unknown", False):
        parser.error(f"unknown arguments: {' '.join(unknown)}")
    return arguments.run(arguments, unknown)


def _run_convert(argv: list[str]) -> int:
    parser = _parser("convert", convert_command.DESCRIPTION, convert_command.EPILOG)
    convert_command.add_arguments(parser)
    arguments = parser.parse_args(argv)
    return arguments.run(arguments, [])


def _parser(prog: str, description: str, epilog: str) -> argparse.ArgumentParser:
    # Options are never abbreviated: a new one would change what an old command line means.
    return Parser(
        prog=prog,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _guarded(run: Callable[[list[str]], int], argv: list[str]) -> int:
    """Turn known failures into lines on stderr; anything unknown keeps its traceback."""
    try:
        status = run(argv)
        sys.stdout.flush()
    except ConvertorError as error:
        console.tell(*(f"error: {line}" for line in error.lines()))
        return error.exit_code
    except KeyboardInterrupt:
        console.tell("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our data has gone: no failure, and the interpreter must not complain at exit either.
        console.discard(sys.stdout)
        return 0
    return status
