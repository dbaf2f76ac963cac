"""Model configurations: rendered strictly, then parsed back with Triton's own ModelConfig protobuf."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from convertor import payload
from convertor.model_config import parse_config

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
