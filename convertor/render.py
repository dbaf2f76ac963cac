"""Model configurations: rendered strictly, then parsed back with Triton's own ModelConfig protobuf."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from convertor import payload
from convertor.by_path import load_by_path
from convertor.errors import RefusedError


def render_config(kind: str, values: Mapping[str, Any]) -> str:
    """Return the config.pbtxt of a model of `kind` (a folder of templates/).

    Raises:
        RefusedError: The result is not a ModelConfig (a fault of the template, or a value that breaks it).
    """
    text = _environment().get_template(f"{kind}/config.pbtxt.j2").render(values)
    parse_config(text, f"{values['name']}/config.pbtxt")
    return text


def parse_config(text: str, where: str) -> Any:  # noqa: ANN401 - a generated protobuf class
    """Return a config.pbtxt as Triton's ModelConfig message.

    Raises:
        RefusedError: It is not one.
    """
    from google.protobuf import text_format

    try:
        return text_format.Parse(text, _model_config_pb2().ModelConfig())
    except text_format.ParseError as error:
        raise RefusedError(f"{where}: not a Triton model configuration: {error}; publish the model again") from error


def pbtxt(value: str | list[int]) -> str:
    """Write a text or a list of dims for a config.pbtxt; the only way a value gets into one."""
    return json.dumps(value, ensure_ascii=True)


@lru_cache(maxsize=1)
def _environment() -> Any:  # noqa: ANN401 - jinja2 is imported late
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(  # noqa: S701 - not HTML; the filter escapes
        loader=FileSystemLoader(payload.TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True
    )
    environment.filters["pbtxt"] = pbtxt
    return environment


@lru_cache(maxsize=1)
def _model_config_pb2() -> ModuleType:
    """Load tritonclient's generated module by file: the usual import brings grpc, 52 MB and half a second."""
    package = find_spec("tritonclient")
    if package is None or not package.submodule_search_locations:
        raise RefusedError("tritonclient is not installed; pip install triton-convertor again")
    path = Path(package.submodule_search_locations[0]) / "grpc" / "model_config_pb2.py"
    return load_by_path("_triton_model_config_pb2", path)
