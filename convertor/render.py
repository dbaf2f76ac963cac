"""Model configurations: rendered strictly, then parsed back with Triton's own ModelConfig protobuf."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from convertor import payload
from convertor.by_path import load_by_path
from convertor.errors import RefusedError

_ENUM = re.compile("[A-Z][A-Z0-9_]*")


def render_config(kind: str, values: Mapping[str, Any]) -> str:
    """Return the config.pbtxt of a model of `kind` (a folder of templates/).

    Raises:
        jinja2.UndefinedError, TypeError, ValueError: A value is missing, cannot be written, or the result is no
            ModelConfig. Packages cannot cause that: it is a fault of the template or of its caller.
    """
    text = _environment().get_template(f"{kind}/config.pbtxt.j2").render(values)
    parse_config(text, f"{values['name']}/config.pbtxt")
    return text


def parse_config(text: str, where: str) -> Any:  # noqa: ANN401 - a generated protobuf class
    """Return a config.pbtxt as Triton's ModelConfig message.

    Raises:
        ValueError: It is not one; `where` says which.
    """
    from google.protobuf import text_format

    try:
        return text_format.Parse(text, _model_config_pb2().ModelConfig())
    except text_format.ParseError as error:
        raise ValueError(f"{where}: not a Triton model configuration: {error}") from error


def pbtxt(value: object) -> str:
    """Write a text, a whole number or a list of dims for a config.pbtxt.

    Raises:
        TypeError: It is something else.
    """
    dims = cast("list[object]", value) if isinstance(value, list) else [] if isinstance(value, str) else [value]
    # str() first: of an undefined variable it raises an error with the variable's name.
    if not all(str(item) and type(item) is int for item in dims):
        raise TypeError(f"expected a text, a whole number or a list of dims, got {value!r}")
    return json.dumps(value)


def enum(value: object) -> str:
    """Write a value of one of protobuf's enums; Triton's protobuf then knows whether it exists.

    Raises:
        TypeError: It is no such word.
    """
    if not _ENUM.fullmatch(str(value)):
        raise TypeError(f"expected a word in capitals, got {value!r}")
    return str(value)


@lru_cache(maxsize=1)
def _environment() -> Any:  # noqa: ANN401 - jinja2 is imported late
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(  # noqa: S701 - not HTML; the filter escapes
        loader=FileSystemLoader(payload.TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True
    )
    # The only ways in which a value gets into a config.
    environment.filters.update(pbtxt=pbtxt, enum=enum)
    return environment


@lru_cache(maxsize=1)
def _model_config_pb2() -> ModuleType:
    """Load tritonclient's generated module by file: the usual import brings grpc, 52 MB and half a second."""
    package = find_spec("tritonclient")
    if package is None or not package.submodule_search_locations:
        raise RefusedError("tritonclient is not installed; pip install triton-convertor again")
    path = Path(package.submodule_search_locations[0]) / "grpc" / "model_config_pb2.py"
    return load_by_path("_triton_model_config_pb2", path)
