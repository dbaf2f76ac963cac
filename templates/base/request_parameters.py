"""What one request asks to be done otherwise: thresholds, classes, the number of detections, no masks.

Payload: runs inside the server's python (3.9 or newer); needs the standard library only.

Triton's parameters are text, whole numbers, true or false, and in newer releases floats: numbers and lists may come as
text ("0.5", '[0, "dog"]'). Parameters of other names are the client's or the server's own and are not looked at.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, Union, cast

Setting = Union[float, int, "tuple[int | str, ...]"]

# What a client sent is shown back, not all of it.
_SHOWN = 60


class ParameterError(ValueError):
    """A parameter that cannot be meant; the text is one line with its name, what is expected and what was sent."""


@dataclass(frozen=True)
class Overrides:
    """What one request has other than the package; hashable.

    Attributes:
        settings: Settings of the decoder and their values, by name.
        masks: Whether masks are wanted.
    """

    settings: tuple[tuple[str, Setting], ...] = ()
    masks: bool = True


AS_PACKAGED = Overrides()


def read_overrides(parameters: str, settings: Mapping[str, Any]) -> Overrides:
    """Return what a request's parameters override.

    Args:
        parameters: `request.parameters()`, a JSON object in text; empty where there are none.
        settings: The decoder's settings in the package.

    Raises:
        ParameterError: A parameter has a wrong type or is out of range, or the model has no such setting.
    """
    if parameters in ("", "{}"):
        return AS_PACKAGED
    values = cast("dict[str, Any]", json.loads(parameters))
    found: list[tuple[str, Setting]] = []
    for name, read in _READERS.items():
        if name not in values:
            continue
        if name not in settings:
            raise ParameterError(
                f"{name}: expected no such parameter, because the model's decoder has no such setting, "
                f"got {_shown(values[name])}"
            )
        found.append((name, read(name, values[name], settings)))
    masks = _flag("masks", values["masks"]) if "masks" in values else True
    return Overrides(tuple(found), masks)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _fraction(name: str, value: object, settings: Mapping[str, Any]) -> float:
    del settings
    number = _number(value)
    if number is None or not 0 <= number <= 1:  # NaN is not in any range
        raise ParameterError(f"{name}: expected a number from 0 to 1, got {_shown(value)}")
    return number


def _count(name: str, value: object, settings: Mapping[str, Any]) -> int:
    """Return a whole number of detections, at most the package's, which the outputs' dims state."""
    most = int(settings[name])
    number = _number(value)
    if number is None or not 1 <= number <= most or number != int(number):
        raise ParameterError(
            f"{name}: expected a whole number from 1 to {most}, the model's own (a request may only lower it), "
            f"got {_shown(value)}"
        )
    return int(number)


def _classes(name: str, value: object, settings: Mapping[str, Any]) -> tuple[int | str, ...]:
    """Return class ids and names of a JSON list or of one id or name; the decoder knows which there are."""
    del settings
    listed = _from_json(value)
    items: list[Any] = cast("list[Any]", listed) if isinstance(listed, list) else [listed]
    good = all(isinstance(item, (int, str)) and not isinstance(item, bool) and len(str(item)) < 256 for item in items)
    if not items or not good:
        raise ParameterError(
            f'{name}: expected a JSON list of class ids or names as text, such as [0, "dog"], got {_shown(value)}'
        )
    return tuple(dict.fromkeys(items))


def _flag(name: str, value: object) -> bool:
    flag = _from_json(value.lower()) if isinstance(value, str) else value
    if not isinstance(flag, bool):
        raise ParameterError(f"{name}: expected true or false, got {_shown(value)}")
    return flag


def _number(value: object) -> float | None:
    """Return a finite number, also of a text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _from_json(value: object) -> object:
    """Return what a text says as JSON; the value itself where it is something else."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


_READERS: dict[str, Callable[[str, object, Mapping[str, Any]], Setting]] = {
    "score_threshold": _fraction,
    "iou_threshold": _fraction,
    "max_det": _count,
    "classes": _classes,
}
