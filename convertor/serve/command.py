"""The sub-command `convertor serve REPOSITORY`."""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import signal
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING

from convertor.errors import ServerError, UsageError
from convertor.serve import preflight
from convertor.serve.ports import PortWish
from convertor.serve.process import Server, Settings, running_server

if TYPE_CHECKING:
    from rich.status import Status

_DESCRIPTION = """\
Run a stock Triton server on a model repository, on this machine: a tritonserver on PATH when there is one, else the
embedded one (pip install 'triton-convertor[serve]'; Linux x86_64). Ctrl-C or SIGTERM stops it."""
_EPILOG = "Any other flag is handed to tritonserver as it is, for example --model-control-mode=poll."


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],  # pyright: ignore[reportPrivateUsage] - no public name
) -> None:
    """Add `serve` to the command line; its unknown flags are meant for tritonserver."""
    parser = subparsers.add_parser(
        "serve", help="serve a model repository", description=_DESCRIPTION, epilog=_EPILOG, allow_abbrev=False
    )
    parser.add_argument("repository", type=Path, metavar="REPOSITORY", help="the model repository")
    parser.add_argument(
        "--host", default="127.0.0.1", help="IPv4 address to listen on (default: %(default)s, this machine)"
    )
    for service, usual in (("http", 8000), ("grpc", 8001), ("metrics", 8002)):
        parser.add_argument(
            f"--{service}-port",
            type=_port,
            metavar="N",
            help=f"0 for any free port (default: {usual}, else a free one)",
        )
    parser.add_argument("--strict", action="store_true", help="exit with 1 if any model fails to load")
    parser.add_argument(
        "--timeout", type=_seconds, default=300.0, metavar="S", help="for loading (default: %(default)g s)"
    )
    parser.add_argument("--log", type=Path, metavar="FILE", help="the server's log (default: a temporary file)")
    parser.set_defaults(run=run, accepts_unknown=True)


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is no port number (0 to 65535)")
    return number


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no positive number of seconds")
    return seconds


def run(args: argparse.Namespace, unknown: list[str]) -> int:
    """Serve until Ctrl-C, SIGTERM or SIGHUP.

    Args:
        args: What `add_parser` describes.
        unknown: Flags for tritonserver.

    Returns:
        0, after being told to stop.

    Raises:
        RefusedError: The repository is none.
        ServerError: The server does not start or ended by itself, no model loaded, or with --strict one did not.
        UsageError: A further argument is not a flag, or one that `serve` must set itself.
    """
    _check_flags(unknown)
    warning = preflight.shared_memory_warning()
    if warning:
        _tell(f"warning: {warning}")
    try:
        with _stop_signals(), contextlib.ExitStack() as stack:
            status = stack.enter_context(LoadingStatus())
            server = stack.enter_context(
                running_server(args.repository, *unknown, settings=_settings(args, status.show))
            )
            status.close()
            _report(server, args)
            server.wait()
    except KeyboardInterrupt:
        _tell("stopped")
    return 0


def _check_flags(unknown: list[str]) -> None:
    if unknown and not unknown[0].startswith("-"):
        raise UsageError(f"one repository at a time: {unknown[0]!r} is neither a flag nor the repository")
    for flag in unknown:
        name = flag.split("=")[0]
        if name in ("--http-address", "--grpc-address", "--metrics-address"):
            raise UsageError(f"{name}: use --host, which opens HTTP, gRPC and metrics together")
        if name == "--allow-http":
            raise UsageError(f"{name}: serve itself watches the models over HTTP; run tritonserver without it")


def _settings(args: argparse.Namespace, progress: Callable[[str], None]) -> Settings:
    def wish(given: int | None, usual: int) -> PortWish:
        return PortWish(usual, or_any=True) if given is None else PortWish(given)

    return Settings(
        host=args.host,
        http=wish(args.http_port, 8000),
        grpc=wish(args.grpc_port, 8001),
        metrics=wish(args.metrics_port, 8002),
        log=args.log,
        timeout=args.timeout,
        progress=progress,
    )


@contextlib.contextmanager
def _stop_signals() -> Generator[None]:
    """Let SIGTERM and SIGHUP end the command as Ctrl-C does: the server runs in a session of its own and would stay."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    former = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _report(server: Server, args: argparse.Namespace) -> None:
    """Print failed models on stderr, endpoints and served models on stdout.

    Raises:
        ServerError: No model is served, or with --strict one failed.
    """
    for name, reason in server.failed.items():
        _tell(f"not served: {name}: {reason}")
    if not server.ready:
        raise ServerError(f"no model was loaded from {args.repository}")
    if args.strict and server.failed:
        raise ServerError(f"--strict: {len(server.failed)} not served, {len(server.ready)} ready")
    if server.failed:
        _tell(f"the server's log: {server.log_path}")
    if not _is_loopback(args.host):
        _tell(f"listening on {args.host}: whoever reaches this address may use the server, it asks for no password")
    lines = [
        f"http     http://{server.http_url}",
        f"grpc     {server.grpc_url}",
        f"metrics  {server.metrics_url}",
        f"models   {', '.join(server.ready)}",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
    _tell("ready; Ctrl-C stops the server")


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _tell(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


class LoadingStatus(contextlib.AbstractContextManager["LoadingStatus"]):
    """A spinner on a terminal's stderr, from the second second of loading on; nothing elsewhere."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._status: Status | None = None

    def show(self, text: str) -> None:
        """Show `text` and the seconds that passed."""
        seconds = time.monotonic() - self._start
        if seconds < 1 or not sys.stderr.isatty():
            return
        line = f"{text}, {seconds:.0f} s"
        if self._status is None:
            from rich.console import Console

            self._status = Console(stderr=True).status(line)
            self._status.start()
        self._status.update(line)

    def close(self) -> None:
        """Take the spinner away."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def __exit__(self, *_: object) -> None:
        self.close()
