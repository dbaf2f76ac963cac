"""Start a Triton server on a repository, wait until it serves, and stop it with all that it started."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from convertor.errors import ServerError
from convertor.serve import embedded, preflight, reasons
from convertor.serve.ports import PortWish, claim_port, resolve_host
from convertor.serve.readiness import ModelState, Watch, wait_until_ready

# Triton itself waits up to 30 s for requests in flight; then it unloads its models.
_STOP_SECONDS = 40.0
_ANY_PORT = PortWish()


def _silent(_: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Settings:
    """How to run a server.

    Attributes:
        host: The IPv4 address (or a name for one) that HTTP, gRPC and metrics listen on.
        http: The HTTP port.
        grpc: The gRPC port.
        metrics: The metrics port.
        log: Where the server's log goes, overwritten; None: a temporary file, kept only if something failed.
        timeout: Seconds for all models to load.
        progress: Told in a few words how far loading is.
    """

    host: str = "127.0.0.1"
    http: PortWish = _ANY_PORT
    grpc: PortWish = _ANY_PORT
    metrics: PortWish = _ANY_PORT
    log: Path | None = None
    timeout: float = 300.0
    progress: Callable[[str], None] = _silent


@dataclass(frozen=True)
class Server:
    """A running server whose models are all ready or failed.

    Attributes:
        http_url: `host:port` of HTTP, as tritonclient.http takes it.
        grpc_url: `host:port` of gRPC, as tritonclient.grpc takes it.
        metrics_url: The whole URL of the metrics page.
        log_path: The server's log.
        ready: Names of the models that answer.
        failed: Model name -> one line why it is not served.
        process: The server's process.
    """

    http_url: str
    grpc_url: str
    metrics_url: str
    log_path: Path
    ready: tuple[str, ...]
    failed: Mapping[str, str]
    process: subprocess.Popen[bytes]

    def wait(self) -> None:
        """Wait until the server ends by itself, which it never should.

        Raises:
            ServerError: It ended; the line says why.
        """
        status = self.process.wait()
        cause = signal.Signals(-status).name if status < 0 else f"status {status}"
        raise ServerError(f"the server ended ({cause}){reasons.last_words(_read(self.log_path))}")


@contextlib.contextmanager
def running_server(repository: Path, *extra_flags: str, settings: Settings | None = None) -> Generator[Server]:
    """Run a server on `repository` while the context lasts; models that fail to load do not stop it.

    Args:
        repository: A model repository.
        extra_flags: Handed to tritonserver after the flags of ours, so they win.
        settings: By default loopback and any free ports.

    Yields:
        The server, once every model is ready or failed (`failed` says why).

    Raises:
        ServerError: There is no usable server, it ended while starting, or the models took too long.
        RefusedError: `repository` is not one.
    """
    settings = settings or Settings()
    preflight.check_repository(repository)
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="convertor-serve-")))
        installation = embedded.find_server(scratch)
        if installation.embedded:
            preflight.check_numpy()
        host = resolve_host(settings.host)
        addresses = [
            f"{host}:{stack.enter_context(claim_port(host, wish, option)).number}"
            for option, wish in _wishes(settings).items()
        ]
        log = _log_file(settings.log)
        shm_prefix = f"convertor-{os.getpid()}-{scratch.name[-8:]}-"
        command = _command(installation, repository, addresses, shm_prefix, extra_flags)
        with _told_where_the_log_is(log), _process(command, installation.environment, log, shm_prefix) as process:
            server = _when_ready(process, repository, addresses, log, settings, extra_flags)
            try:
                yield server
            finally:
                if settings.log is None and not server.failed and process.poll() is None:
                    log.unlink(missing_ok=True)


def _wishes(settings: Settings) -> dict[str, PortWish]:
    return {"--http-port": settings.http, "--grpc-port": settings.grpc, "--metrics-port": settings.metrics}


def _command(
    installation: embedded.Installation,
    repository: Path,
    addresses: Sequence[str],
    shm_prefix: str,
    extra_flags: Sequence[str],
) -> list[str]:
    flags = [f"--model-repository={repository}", "--exit-on-error=false", "--strict-readiness=false"]
    for service, address in zip(("http", "grpc", "metrics"), addresses):
        host, _, port = address.rpartition(":")
        flags += [f"--{service}-address={host}", f"--{service}-port={port}"]
    flags.append(f"--backend-config=python,shm-region-prefix-name={shm_prefix}")
    return [str(installation.executable), *flags, *installation.flags, *extra_flags]


def _log_file(path: Path | None) -> Path:
    """Return an empty, writable log file: `path`, or a temporary one."""
    if path is None:
        descriptor, name = tempfile.mkstemp(prefix="convertor-serve-", suffix=".log")
        os.close(descriptor)
        return Path(name)
    try:
        path.write_bytes(b"")
    except OSError as error:
        raise ServerError(f"--log {path}: {error.strerror}; give a file in a folder that exists") from error
    return path


@contextlib.contextmanager
def _told_where_the_log_is(log: Path) -> Generator[None]:
    try:
        yield
    except ServerError as error:
        raise ServerError(*error.problems, f"the server's log: {log}") from error


@contextlib.contextmanager
def _process(
    command: list[str], environment: dict[str, str], log: Path, shm_prefix: str
) -> Generator[subprocess.Popen[bytes]]:
    """Run `command` in a session of its own: a terminal's Ctrl-C must reach it only through us, in order."""
    with log.open("ab") as sink:
        process = subprocess.Popen(  # noqa: S603 - no shell; the flags are the caller's own
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _stop(process)
        for leftover in Path("/dev/shm").glob(f"{shm_prefix}*"):  # noqa: S108 - POSIX shared memory lies there
            leftover.unlink(missing_ok=True)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server, politely at first; a second Ctrl-C, or too long a wait, ends it and its stubs at once."""
    with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
        process.terminate()
        process.wait(_STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _when_ready(
    process: subprocess.Popen[bytes],
    repository: Path,
    addresses: Sequence[str],
    log: Path,
    settings: Settings,
    extra_flags: Sequence[str],
) -> Server:
    http, grpc, metrics = (_reachable(address) for address in addresses)
    watch = Watch(
        address=http,
        is_alive=lambda: process.poll() is None,
        read_log=lambda: _read(log),
        next_step=lambda state, reason: _next_step(repository, state, reason),
        progress=settings.progress,
        expected=frozenset() if "explicit" in " ".join(extra_flags) else preflight.model_names(repository),
    )
    readiness = wait_until_ready(watch, settings.timeout)
    return Server(http, grpc, f"http://{metrics}/metrics", log, readiness.ready, readiness.failed, process)


def _reachable(address: str) -> str:
    """Return where this machine reaches what listens on `address`."""
    host, _, port = address.rpartition(":")
    return f"127.0.0.1:{port}" if host == "0.0.0.0" else address  # noqa: S104 - read, not bound


def _next_step(repository: Path, state: ModelState, reason: str) -> str:
    """Return the pip line for a model whose reason is a missing python module, else ""."""
    if reasons.missing_module(reason) is None:
        return ""
    requirements = repository / state.name / state.version / "requirements.txt"
    wanted = f"-r {requirements}" if requirements.is_file() else str(reasons.missing_module(reason))
    return f"; in the server's python: {_server_python()} -m pip install {wanted}"


def _server_python() -> str:
    return "python3" if shutil.which("tritonserver") else sys.executable


def _read(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")
