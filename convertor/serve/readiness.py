"""Which models are ready, and why others are not, from the server's repository index (stdlib HTTP only).

Triton opens its HTTP port only when every model of the repository was tried, so a first answer means that loading is
over, but for models that poll or explicit mode is loading just then.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from convertor.errors import ServerError
from convertor.serve import reasons

_POLL_SECONDS = 0.1
_IN_MOTION = ("LOADING", "UNLOADING")


@dataclass(frozen=True)
class ModelState:
    """One line of the repository index; version, state and reason are empty for a model that was never loaded."""

    name: str
    version: str
    state: str
    reason: str


@dataclass(frozen=True)
class Readiness:
    """What the server serves.

    Attributes:
        ready: Names of the models with at least one ready version, sorted.
        failed: Every other model -> one line why. (A version that fails takes the model's other versions with it.)
    """

    ready: tuple[str, ...]
    failed: Mapping[str, str]


@dataclass(frozen=True)
class Watch:
    """What to look at while waiting.

    Attributes:
        address: The server's HTTP address, `host:port`.
        is_alive: Whether the server process still runs.
        read_log: Returns the server's log so far.
        next_step: Given model, version and reason, what to do about it ("; ..."), or "".
        progress: Told in a few words how far it is.
        expected: Models that ought to be loaded: Triton's index leaves some out, or lists them without a state.
    """

    address: str
    is_alive: Callable[[], bool]
    read_log: Callable[[], str]
    next_step: Callable[[ModelState, str], str]
    progress: Callable[[str], None]
    expected: frozenset[str]


def wait_until_ready(watch: Watch, timeout: float) -> Readiness:
    """Wait until every model is ready or failed.

    Args:
        watch: The server.
        timeout: Seconds for all models together.

    Raises:
        ServerError: The server ended, or some model is still loading when the time is over.
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if not watch.is_alive():
            raise ServerError(f"the server ended while starting{reasons.last_words(watch.read_log())}")
        states = repository_index(watch.address)
        if states is not None and not any(state.state in _IN_MOTION for state in states):
            return _judge(states, watch)
        waiting, through = reasons.loading(watch.read_log())
        watch.progress(f"loading models, {through} of {through + len(waiting)} done")
        time.sleep(_POLL_SECONDS)
    waiting, _ = reasons.loading(watch.read_log())
    what = f"still loading after {timeout:g} s: {', '.join(waiting)}" if waiting else f"no answer after {timeout:g} s"
    raise ServerError(f"{what}; allow more time with --timeout SECONDS")


def repository_index(address: str) -> list[ModelState] | None:
    """Return every model and version that the server at `address` knows, or None while it does not answer."""
    connection = http.client.HTTPConnection(address, timeout=10)
    try:
        connection.request("POST", "/v2/repository/index", body=b"")
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    if answer.status != 200:
        return None
    entries: list[dict[str, Any]] = json.loads(body)
    keys = ("name", "version", "state", "reason")
    return [ModelState(*(str(entry.get(key, "")) for key in keys)) for entry in entries]


def _judge(states: list[ModelState], watch: Watch) -> Readiness:
    ready = {state.name for state in states if state.state == "READY"}
    unlisted = watch.expected - {state.name for state in states}
    states = [*states, *(ModelState(name, "", "", "") for name in sorted(unlisted))]
    failed: dict[str, str] = {}
    for state in states:
        reason = "" if state.name in ready else _reason(state, watch)
        if reason:
            failed[state.name] = reason + watch.next_step(state, reason)
    return Readiness(tuple(sorted(ready)), failed)


def _reason(state: ModelState, watch: Watch) -> str:
    """Return why this model failed, or "" when this line of the index does not say so."""
    if state.reason == "unloaded":
        return ""
    if not state.state:
        return reasons.unloaded_reason(state.name, watch.read_log()) if state.name in watch.expected else ""
    return reasons.one_line(state.reason)
