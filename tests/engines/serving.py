"""`convertor serve` as people start it: a command in a python of its own, and what it tells on stderr."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.server.conftest import ROOT


@dataclass(frozen=True)
class Served:
    """Where it listens, which models answer, and every line that it told."""

    http_url: str
    grpc_url: str
    models: frozenset[str]
    told: tuple[str, ...]

    def reason(self, model: str) -> str:
        """Return why a model is not served; "" where nothing was told."""
        start = f"not served: {model}: "
        return "".join(line.removeprefix(start) for line in self.told if line.startswith(start))


@contextlib.contextmanager
def convertor_serve(repository: Path, python: Path | str = sys.executable) -> Iterator[Served]:
    """Run it on any free ports while the context lasts, once it says what it serves."""
    ports = [f"--{service}-port=0" for service in ("http", "grpc", "metrics")]
    log = repository.with_name("stderr")
    with log.open("wb") as told:
        process = subprocess.Popen(
            [python, "-m", "convertor", "serve", repository, *ports, "--log", repository.with_name("server.log")],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
        )
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline().split(maxsplit=1) for _ in range(4)]
        assert all(lines), log.read_text("utf-8")
        found = {name: rest.strip() for name, rest in lines}
        models = frozenset(found["models"].split(", "))
        lines_told = tuple(log.read_text("utf-8").splitlines())
        yield Served(found["http"].removeprefix("http://"), found["grpc"], models, lines_told)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
