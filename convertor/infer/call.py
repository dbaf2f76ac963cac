"""A served model of the capture profile: is it there, is it what it should be, its answer to one image."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from convertor import capture
from convertor.errors import ServerError
from convertor.infer.channel import Channel, RequestError, SilentError, open_channel
from convertor.infer.endpoint import Endpoint
from convertor.serve import reasons

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

CAPTURE, OVERLAY = "output_capture", "output_overlay"
_PARTS = ("base_", "marshal_", "decode_")
_MAX_NAMED = 20
_HINT = "start one with `convertor serve REPOSITORY`, or say where it is with --url and --protocol"


@dataclass(frozen=True)
class Answer:
    """What the server sent for one image: the served version, the capture JSON, the overlay (JPEG, maybe empty)."""

    version: str
    capture: bytes
    overlay: bytes


class ServerGoneError(ServerError):
    """The server does not answer any more; further requests make no sense."""


class ServedModel:
    """A model that was found ready and of the capture profile; a context manager.

    Args:
        endpoint: Where the server is.
        name: The ensemble.

    Raises:
        RefusedError: The client libraries are not installed.
        ServerError: No server, no such model (the line lists the known ones), not ready (with the reason), or of
            another profile.
    """

    def __init__(self, endpoint: Endpoint, name: str) -> None:
        self.name = name
        self._endpoint = endpoint
        self._channel = open_channel(endpoint)
        try:
            self._check()
        except BaseException:
            self._channel.close()
            raise

    def __enter__(self) -> ServedModel:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def infer(self, image: npt.NDArray[np.uint8], *, overlay: bool) -> Answer:
        """Send one RGB image [H, W, 3] with METADATA `{}`; ask for the overlay only when it is wanted.

        Raises:
            ServerGoneError: The server does not answer any more.
            ServerError: It answers with an error.
        """
        import numpy as np

        inputs = {"input": image, capture.METADATA: np.frombuffer(b"{}", np.uint8)}
        wanted = [CAPTURE, OVERLAY] if overlay else [CAPTURE]
        try:
            version, contents = self._channel.infer(self.name, inputs, wanted)
        except SilentError as error:
            if _is_live(self._channel):
                raise ServerError(f"no answer from the server ({error})") from error
            raise ServerGoneError(f"the server at {self._endpoint} has gone ({error})") from error
        return Answer(version, contents[CAPTURE], contents.get(OVERLAY, b""))

    def _check(self) -> None:
        _check_live(self._channel, self._endpoint)
        models = _index(self._channel)
        if models:
            _check_ready(self.name, models)
        try:
            metadata = self._channel.metadata(self.name)
        except RequestError as error:
            raise ServerError(f"model {self.name}: {error}") from error
        except SilentError as error:
            raise ServerError(f"what answers at {self._endpoint} is no Triton server ({error}); {_HINT}") from error
        _check_profile(self.name, metadata, models)


def _is_live(channel: Channel) -> bool:
    try:
        return channel.live()
    except (RequestError, SilentError):
        return False


def _check_live(channel: Channel, endpoint: Endpoint) -> None:
    try:
        live = channel.live()
    except (RequestError, SilentError) as error:
        raise ServerError(f"no Triton server answers at {endpoint} ({error}); {_HINT}") from error
    if not live:
        raise ServerError(f"what answers at {endpoint} is not a live Triton server; {_HINT}")


def _index(channel: Channel) -> dict[str, list[dict[str, Any]]]:
    """Return the index by model name; empty where the server keeps it to itself."""
    try:
        entries = channel.index()
    except (RequestError, SilentError):
        return {}
    models: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        models.setdefault(str(entry.get("name")), []).append(entry)
    return models


def _check_ready(name: str, models: Mapping[str, list[dict[str, Any]]]) -> None:
    if name not in models:
        near = difflib.get_close_matches(name, _callable(models), 1)
        guess = f" (did you mean {near[0]}?)" if near else ""
        raise ServerError(f"no model {name!r} on the server{guess}; it has {_listed(_callable(models))}")
    if not any(entry.get("state") == "READY" for entry in models[name]):
        told = next((str(entry["reason"]) for entry in models[name] if entry.get("reason")), "")
        raise ServerError(f"model {name} is not ready: {reasons.one_line(told)}")


def _check_profile(name: str, metadata: Mapping[str, Any], models: Iterable[str]) -> None:
    inputs: Sequence[Mapping[str, Any]] = metadata.get("inputs", [])
    outputs = {tensor["name"] for tensor in metadata.get("outputs", [])}
    wanted = {"input": "UINT8", capture.METADATA: "UINT8"}
    if {tensor["name"]: tensor["datatype"] for tensor in inputs} == wanted and {CAPTURE, OVERLAY} <= outputs:
        return
    got = ", ".join(f"{tensor['name']} {tensor['datatype']} {_shape(tensor)}" for tensor in inputs) or "none"
    owner = next((name[len(part) :] for part in _PARTS if name.startswith(part) and name[len(part) :] in models), None)
    hint = f"; call {owner}, the ensemble that it is a part of" if owner else ""
    raise ServerError(
        f"model {name} is not of the capture profile: expected the inputs input UINT8 [-1, -1, -1] and "
        f"METADATA UINT8 [-1], got {got}{hint}"
    )


def _shape(tensor: Mapping[str, Any]) -> str:
    return f"[{', '.join(map(str, tensor.get('shape', [])))}]"


def _callable(models: Iterable[str]) -> list[str]:
    """Return the names that clients call: without the parts of ensembles that are there, too."""
    names = set(models)
    return sorted(n for n in names if not any(n.startswith(part) and n[len(part) :] in names for part in _PARTS))


def _listed(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return (", ".join(names[:_MAX_NAMED]) or "none") + rest
