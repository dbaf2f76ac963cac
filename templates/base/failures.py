"""What went wrong with one request: kept while others are answered, then told to who sent it.

Payload: runs inside the server's python (3.9 or newer); needs numpy.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from postprocessors.contract import DecodeError
from request_parameters import ParameterError
from runtimes.contract import RunnerError
from runtimes.preprocessors.colour import ImageError

KNOWN_ERRORS = (DecodeError, ImageError, ParameterError, RunnerError)
_CLIENTS_FAULT = (ImageError, ParameterError)
# The label of convertor_request_failures_total.
_REASONS: dict[type[Exception], str] = {
    ImageError: "image",
    ParameterError: "parameter",
    RunnerError: "engine",
    DecodeError: "decode",
}
_MOST_SHOWN = 500


@dataclass(frozen=True)
class Failure:
    """An error without the frames that it came through.

    Attributes:
        message: One line for who sent the request.
        reason: image, parameter, engine, decode or internal.
        trace: For the log, the traceback of an error that is not known; else empty.
        is_clients_fault: Whether another request would do.
    """

    message: str
    reason: str
    trace: str = ""
    is_clients_fault: bool = False


def failure(error: Exception) -> Failure:
    """Return what is kept of an error.

    An error that is kept keeps its frames, and a frame its caller's, which has the error: a circle that holds the
    request's tensors, and so the server's shared memory, until Python looks for circles.
    """
    if isinstance(error, KNOWN_ERRORS):
        reason = next(reason for kind, reason in _REASONS.items() if isinstance(error, kind))
        return Failure(str(error), reason, is_clients_fault=isinstance(error, _CLIENTS_FAULT))
    # The engine and NumPy may raise anything; the request gets the reason, the log the traceback.
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    said = " ".join(f"{type(error).__name__}: {error}".split())
    return Failure(f"inference failed: {said[:_MOST_SHOWN]}", "internal", trace)
