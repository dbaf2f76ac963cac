"""One server, HTTP or gRPC, through tritonclient: what differs between the two protocols ends here."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from convertor.errors import RefusedError, ServerError
from convertor.infer.endpoint import Endpoint

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]

# A server that does not answer at all is told soon; a slow model on a large image may take minutes.
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 600.0
# gRPC's words for "nobody answers"; Triton itself says UNAVAILABLE of a full queue, too.
_GRPC_SILENCE = ("StatusCode.UNAVAILABLE", "StatusCode.DEADLINE_EXCEEDED")

Json = dict[str, Any]


class RequestError(ServerError):
    """The server answered with an error; the message is the server's own."""


class SilentError(ServerError):
    """Nobody answers, or not as a Triton server would; the message is the transport's reason, in few words."""


class Channel(Protocol):
    """A server. Every method raises RequestError or SilentError."""

    def live(self) -> bool:
        """Return whether the server says that it is live."""
        ...

    def index(self) -> list[Json]:
        """Return the repository index: {name, version, state, reason} of every model version."""
        ...

    def metadata(self, model: str) -> Json:
        """Return a model's metadata: {inputs, outputs: [{name, datatype, shape}]}."""
        ...

    def infer(self, model: str, inputs: Mapping[str, Bytes], outputs: Sequence[str]) -> tuple[str, dict[str, bytes]]:
        """Send UINT8 tensors; return the version that answered and the content of the wanted UINT8 outputs."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def open_channel(endpoint: Endpoint) -> Channel:
    """Return a channel; nothing is sent yet.

    Raises:
        RefusedError: The client libraries are not installed.
    """
    try:
        return (_Grpc if endpoint.protocol == "grpc" else _Http)(endpoint)
    except (ImportError, RuntimeError) as error:
        # tritonclient turns a missing library of one protocol into a RuntimeError
        missing = getattr(error, "name", None) or f"tritonclient[{endpoint.protocol}]"
        raise RefusedError(f"infer needs {missing}: pip install 'triton-convertor[client]'") from error


class _Http:
    def __init__(self, endpoint: Endpoint) -> None:
        self._module: Any = importlib.import_module("tritonclient.http")
        self._broken: Any = importlib.import_module("geventhttpclient.response").HTTPParseError
        # Without a factory of its own the client checks certificates against certifi's list, not the system's.
        tls = {"ssl_context_factory": importlib.import_module("gevent.ssl").create_default_context}
        self._client: Any = self._module.InferenceServerClient(
            endpoint.address,
            ssl=endpoint.tls,
            connection_timeout=CONNECT_SECONDS,
            network_timeout=ANSWER_SECONDS,
            **(tls if endpoint.tls else {}),
        )

    def live(self) -> bool:
        return bool(self._ask(self._client.is_server_live))

    def index(self) -> list[Json]:
        return self._ask(self._client.get_model_repository_index)

    def metadata(self, model: str) -> Json:
        return self._ask(lambda: self._client.get_model_metadata(model))

    def infer(self, model: str, inputs: Mapping[str, Bytes], outputs: Sequence[str]) -> tuple[str, dict[str, bytes]]:
        sent, wanted = _tensors(self._module, inputs, outputs)
        answer = self._ask(lambda: self._client.infer(model, sent, outputs=wanted))
        return str(answer.get_response().get("model_version", "")), _contents(answer, outputs)

    def close(self) -> None:
        self._client.close()

    def _ask(self, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - what tritonclient gives
        try:
            return call()
        except self._module.InferenceServerException as error:
            raise RequestError(str(error.message())) from error
        except self._broken as error:
            raise SilentError("it does not speak HTTP; for gRPC say --protocol grpc") from error
        except (OSError, ValueError) as error:
            raise SilentError(getattr(error, "strerror", None) or str(error) or type(error).__name__) from error


class _Grpc:
    def __init__(self, endpoint: Endpoint) -> None:
        # The library's own log lines say again, in many, what the error says.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        self._module: Any = importlib.import_module("tritonclient.grpc")
        self._client: Any = self._module.InferenceServerClient(endpoint.address, ssl=endpoint.tls)

    def live(self) -> bool:
        return bool(self._ask(lambda: self._client.is_server_live(client_timeout=CONNECT_SECONDS)))

    def index(self) -> list[Json]:
        index = self._ask(lambda: self._client.get_model_repository_index(as_json=True, client_timeout=CONNECT_SECONDS))
        return index.get("models", [])

    def metadata(self, model: str) -> Json:
        return self._ask(lambda: self._client.get_model_metadata(model, as_json=True, client_timeout=CONNECT_SECONDS))

    def infer(self, model: str, inputs: Mapping[str, Bytes], outputs: Sequence[str]) -> tuple[str, dict[str, bytes]]:
        sent, wanted = _tensors(self._module, inputs, outputs)
        answer = self._ask(lambda: self._client.infer(model, sent, outputs=wanted, client_timeout=ANSWER_SECONDS))
        return str(answer.get_response().model_version), _contents(answer, outputs)

    def close(self) -> None:
        self._client.close()

    def _ask(self, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - what tritonclient gives
        try:
            return call()
        except self._module.InferenceServerException as error:
            message = str(error.message())
            if str(error.status()) in _GRPC_SILENCE:
                raise SilentError(_last_words(message)) from error
            raise RequestError(message) from error


def _last_words(message: str) -> str:
    """Return the cause from "failed to connect to all addresses; last error: ...: Connection refused (111)"."""
    words = message.rsplit(": ", 1)[-1].strip(" ]")
    return "no connection" if words in ("", "OK") else words


def _tensors(module: Any, inputs: Mapping[str, Bytes], outputs: Sequence[str]) -> tuple[list[Any], list[Any]]:  # noqa: ANN401
    sent: list[Any] = []
    for name, value in inputs.items():
        tensor = module.InferInput(name, list(value.shape), "UINT8")
        tensor.set_data_from_numpy(value)
        sent.append(tensor)
    return sent, [module.InferRequestedOutput(name) for name in outputs]


def _contents(answer: Any, outputs: Sequence[str]) -> dict[str, bytes]:  # noqa: ANN401
    arrays = {name: answer.as_numpy(name) for name in outputs}
    return {name: b"" if array is None else array.tobytes() for name, array in arrays.items()}
