"""A typed fake of Triton's `triton_python_backend_utils` for unit tests: what the payload uses, same signatures.

The real module exists only inside the server's stub process. Behaviour that matters is also tested on the stock server.
Log lines are collected in `Logger.lines`, metric values in `Metric.current`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Union

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Parameter = Union[str, int, bool]

_TRITON_TYPES = {
    "bool": "BOOL",
    "uint8": "UINT8",
    "int32": "INT32",
    "int64": "INT64",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
    "object": "BYTES",
}


class TritonModelException(Exception):
    """Raised by a model that cannot load."""


class TritonError:
    """The error of one response."""

    UNKNOWN = 0
    INTERNAL = 1
    NOT_FOUND = 2
    INVALID_ARG = 3
    UNAVAILABLE = 4
    UNSUPPORTED = 5
    ALREADY_EXISTS = 6
    CANCELLED = 7

    def __init__(self, message: str, code: int = INTERNAL) -> None:
        self._message = message
        self._code = code

    def message(self) -> str:
        """Return the text."""
        return self._message

    def code(self) -> int:
        """Return the code, one of the class's constants."""
        return self._code


class Tensor:
    """A named array in system memory."""

    def __init__(self, name: str, numpy_array: Array) -> None:
        if str(numpy_array.dtype) not in _TRITON_TYPES:
            raise TritonModelException(f"Tensor dtype {numpy_array.dtype} is not supported")
        self._name = name
        self._array = np.ascontiguousarray(numpy_array) if numpy_array.ndim else numpy_array

    @staticmethod
    def from_dlpack(name: str, tensor: Tensor) -> Tensor:
        """Return a tensor on another tensor's memory (the server takes any DLPack object here)."""
        return Tensor(name, tensor.as_numpy().view())

    def name(self) -> str:
        """Return the name."""
        return self._name

    def as_numpy(self) -> Array:
        """Return the array itself, not a copy: writing to it changes the request, as on the server."""
        return self._array

    def shape(self) -> list[int]:
        """Return the dims."""
        return list(self._array.shape)

    def triton_dtype(self) -> str:
        """Return Triton's name of the element type without its TYPE_ prefix (the server has an enumeration here)."""
        return _TRITON_TYPES[str(self._array.dtype)]

    def is_cpu(self) -> bool:
        """Return True: there is no GPU memory here."""
        return True


class InferenceRequest:
    """One request."""

    def __init__(
        self,
        request_id: str = "",
        correlation_id: int = 0,
        inputs: Sequence[Tensor] = (),
        requested_output_names: Sequence[str] = (),
        model_name: str = "",
        model_version: int = -1,
        parameters: Mapping[str, Parameter] | None = None,
    ) -> None:
        self._request_id = request_id
        self._correlation_id = correlation_id
        self._inputs = list(inputs)
        self._requested_output_names = list(requested_output_names)
        self._model_name = model_name
        self._model_version = model_version
        self._parameters = dict(parameters or {})

    def request_id(self) -> str:
        """Return the client's id, empty when it sent none."""
        return self._request_id

    def correlation_id(self) -> int:
        """Return the sequence's id, 0 when there is none."""
        return self._correlation_id

    def inputs(self) -> list[Tensor]:
        """Return the inputs."""
        return self._inputs

    def requested_output_names(self) -> list[str]:
        """Return the names of the outputs that are wanted."""
        return self._requested_output_names

    def model_name(self) -> str:
        """Return the model's name."""
        return self._model_name

    def model_version(self) -> int:
        """Return the model's version, -1 when the request names none."""
        return self._model_version

    def parameters(self) -> str:
        """Return the request's parameters as a JSON object in text, as the server does."""
        return json.dumps(self._parameters)

    def is_cancelled(self) -> bool:
        """Return False."""
        return False


class InferenceResponse:
    """One response: outputs or an error."""

    def __init__(self, output_tensors: Sequence[Tensor] = (), error: TritonError | None = None) -> None:
        self._output_tensors = list(output_tensors)
        self._error = error

    def output_tensors(self) -> list[Tensor]:
        """Return the outputs; none when there is an error."""
        return self._output_tensors

    def has_error(self) -> bool:
        """Return whether this is an error."""
        return self._error is not None

    def error(self) -> TritonError | None:
        """Return the error, if there is one."""
        return self._error


class Logger:
    """Collects log lines as (level, text)."""

    lines: ClassVar[list[tuple[str, str]]] = []

    @staticmethod
    def log_info(message: str) -> None:
        """Log for information."""
        Logger.lines.append(("info", message))

    @staticmethod
    def log_warn(message: str) -> None:
        """Log a warning."""
        Logger.lines.append(("warn", message))

    @staticmethod
    def log_error(message: str) -> None:
        """Log an error."""
        Logger.lines.append(("error", message))

    @staticmethod
    def log_verbose(message: str) -> None:
        """Log what only a verbose server shows."""
        Logger.lines.append(("verbose", message))


class Metric:
    """One series of a metric family."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.labels = dict(labels)
        self.current = 0.0

    def increment(self, value: float) -> None:
        """Add to the value."""
        self.current += value

    def set(self, value: float) -> None:
        """Replace the value."""
        self.current = value

    def value(self) -> float:
        """Return the value."""
        return self.current


class MetricFamily:
    """A named metric."""

    COUNTER = 0
    GAUGE = 1

    def __init__(self, name: str, description: str, kind: int) -> None:
        self.name = name
        self.description = description
        self.kind = kind

    def Metric(self, labels: Mapping[str, str] | None = None) -> Metric:
        """Return a series with these labels."""
        return Metric(labels or {})


def get_input_tensor_by_name(inference_request: InferenceRequest, name: str) -> Tensor | None:
    """Return the input of this name, None when the request has none."""
    return next((tensor for tensor in inference_request.inputs() if tensor.name() == name), None)


def get_output_tensor_by_name(inference_response: InferenceResponse, name: str) -> Tensor | None:
    """Return the output of this name, None when the response has none."""
    return next((tensor for tensor in inference_response.output_tensors() if tensor.name() == name), None)
