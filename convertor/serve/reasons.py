"""One readable line for why a model or the server failed, from what Triton says: pure text, no input or output.

The wordings are those of Triton 2.51 (release 24.10); a text that is not recognised comes through as it is,
on one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from convertor import errors

_STATUS = re.compile(
    r"^(?:Internal|Invalid argument|Unavailable|Unsupported|Not found|Unknown|Already exists): ", re.IGNORECASE
)
_ERROR_LINE = re.compile(r'^E\d{4} [\d:.]+ +\d+ [\w.]+:\d+\] +"?(?P<text>.*?)"?$')
_PROTOBUF = re.compile(r"Error parsing text-format inference\.ModelConfig: (?P<text>.*)")
_SHM_FULL = (
    "shared memory (/dev/shm) is full: each instance of a python model takes 1 MB and room for its tensors; "
    "free some, or give the container more (docker run --shm-size=1g)"
)
_NOISE = ("CudaDriverHelper", "unable to create stream", "failed to load all models", "NVML", "chttp2_server")
_STUB_DIED = re.compile(r"Stub process '.*' is not healthy|Stub process .* (?:exited|died)")
_LONGEST = 1000
_MODULE = re.compile(r"No module named '(?P<module>[^']+)'")


def one_line(reason: str) -> str:
    """Return a model's load reason as one line: the exception's own text, without status words and python's trace."""
    text = reason.replace("\\n", "\n").split("\n\nAt:\n")[0]
    text = " ".join(text.split())
    text = _STATUS.sub("", text)
    text = re.sub(r"^(?:\w+\.)*(?:TritonModelException|RunnerError): ", "", text)
    if "Unable to initialize shared memory" in text or "Failed to increase the shared memory pool" in text:
        return _SHM_FULL
    if _STUB_DIED.search(text):
        return "its python process died while loading: a crash in native code, or the system ran out of memory"
    if "Could not determine backend" in text:
        return "no config.pbtxt that names a backend"
    backend = re.search(r"unable to find backend library for backend '([^']+)'", text)
    if backend:
        return f"needs Triton's {backend.group(1)} backend, which this server does not have"
    if "no GPUs are available" in text:
        return f"{text}; convert with --device cpu, or start the server where it sees a GPU"
    return _printable(text) or "no reason given"


def _printable(text: str) -> str:
    """Return a text that a terminal may show: an engine repeats names from the graph, which may hold anything."""
    shown = errors.one_line(text[: _LONGEST + 1])
    return shown if len(text) <= _LONGEST else f"{shown[:_LONGEST]}..."


def missing_module(reason: str) -> str | None:
    """Return the name of the python module that a load reason misses, or None."""
    found = _MODULE.search(reason)
    return found.group("module") if found else None


def unloaded_reason(model: str, log: str) -> str:
    """Return why a model that the server lists without a state was not loaded; only the log knows.

    Args:
        model: The model's name.
        log: The server's log so far.
    """
    quoted = re.escape(model)
    config_error = ""
    for line in log.splitlines():
        parse_error = _PROTOBUF.search(line)
        if parse_error:
            config_error = f"config.pbtxt line {parse_error.group('text')}"
            continue
        text = _error_text(line)
        if text is None or not re.search(rf"(?<![\w.-]){quoted}(?![\w.-])", text):
            continue
        if "failed to read text proto" in text and config_error:
            return config_error
        found = _dependency(model, text) or _own_failure(model, text)
        if found:
            return found
    return "not loaded, and the server gave no reason"


def _dependency(model: str, text: str) -> str | None:
    failed = re.search(rf"ensemble '{re.escape(model)}' depends on '([^']+)' which has no loaded version", text)
    if failed:
        return f"needs {failed.group(1)}, which failed"
    absent = re.search(rf"ensemble {re.escape(model)} contains models that are not available or ambiguous: (.*)", text)
    return f"needs {absent.group(1)}, which is not in the repository" if absent else None


def _own_failure(model: str, text: str) -> str | None:
    name = re.escape(model)
    found = re.search(
        rf"(?:Poll failed for model directory|failed to load model|failed to load) '{name}'[^:]*: (.*)", text
    )
    return one_line(found.group(1)) if found else None


def last_words(log: str) -> str:
    """Return ": " and the line of a dead server's log that says why it died, or "" when none does."""
    lines = [line for line in log.splitlines() if line.strip()]
    for line in lines:
        if "error while loading shared libraries" in line or "unrecognized option" in line or "GLIBC_" in line:
            return ": " + line.rsplit("tritonserver: ", 1)[-1]
    errors = list(_errors(lines))
    if errors:
        return ": " + one_line(errors[-1])
    return "" if not lines or re.match(r"[I|+]", lines[-1]) else f": {lines[-1].strip()}"


def _errors(lines: list[str]) -> Iterator[str]:
    for line in lines:
        text = _error_text(line)
        if text is not None:
            yield text


def _error_text(line: str) -> str | None:
    found = _ERROR_LINE.match(line)
    if not found or any(noise in line for noise in _NOISE):
        return None
    return found.group("text")


def loading(log: str) -> tuple[list[str], int]:
    """Return the models that the log shows as still loading, and how many are through (loaded or failed)."""
    started = dict.fromkeys(re.findall(r'"loading: ([^"]+):\d+"', log))
    through = set(re.findall(r"\"(?:successfully loaded|failed to load) '([^']+)'(?: version \d+)?[:\"]", log))
    return [name for name in started if name not in through], len(through & started.keys())
