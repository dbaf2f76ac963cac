"""What an artifact says of itself, read without its engine, and what its metadata says about classes."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union, cast

from convertor.onnx_graph import OnnxFacts, TensorFact, read_onnx_facts

__all__ = ["ArtifactFacts", "GraphFacts", "OnnxFacts", "TensorFact", "graph_facts", "parse_names", "read_onnx_facts"]


@dataclass(frozen=True)
class GraphFacts:
    """What an artifact of another engine says of itself, as that engine's support.py reads it.

    Attributes:
        inputs: Those that have to be fed.
        outputs: In the order in which the engine returns them.
        metadata: Key -> value.
    """

    inputs: tuple[TensorFact, ...]
    outputs: tuple[TensorFact, ...]
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


ArtifactFacts = Union[OnnxFacts, GraphFacts]

_NAMES_BYTES = 1 << 20  # 21,000 ImageNet classes take 600 kB
_TOKEN = re.compile(r"""\s*('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\d{1,9}|[][(){}:,])\s*""", re.DOTALL)


def graph_facts(plain: Mapping[str, Any]) -> GraphFacts:
    """Return a support.py's plain values as facts.

    Args:
        plain: {"inputs": [{"name", "dtype", "shape"}, ...], "outputs": the same, "metadata": {key: text}, optional}.
    """

    def tensors(found: Sequence[Mapping[str, Any]]) -> tuple[TensorFact, ...]:
        return tuple(TensorFact(tensor["name"], tensor["dtype"], tuple(tensor["shape"])) for tensor in found)

    return GraphFacts(tensors(plain["inputs"]), tensors(plain["outputs"]), plain.get("metadata", {}))


def parse_names(value: str) -> tuple[str, ...] | None:
    """Parse class names as Ultralytics writes them into metadata `names`, and return them in id order.

    Args:
        value: The Python text or JSON of a dict {id: name}, in any order, ids also as text, or of a list.

    Returns:
        The names; None if the text is something else, is empty, or its ids are not exactly 0 .. n-1.
    """
    if len(value) > _NAMES_BYTES:
        return None
    parsed = _literal(value)
    if isinstance(parsed, dict):
        return _by_id(cast("dict[object, object]", parsed))
    if isinstance(parsed, (list, tuple)):
        return _by_id(dict(enumerate(cast("list[object]", parsed))))
    return None


def _literal(value: str) -> object:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        pass
    if not _is_flat(value):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a name with a lone backslash
            return ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError):
        return None


def _is_flat(value: str) -> bool:
    """Say whether a text is strings and numbers in brackets that do not nest: deep ones crash Python 3.10's parser."""
    position, end, brackets = 0, len(value), 0
    while brackets <= 2 and (token := _TOKEN.match(value, position)):
        brackets += token[1] in "[](){}"
        position = token.end()
    return position == end


def _by_id(names: Mapping[object, object]) -> tuple[str, ...] | None:
    by_id: dict[int, str] = {}
    for key, name in names.items():
        number = int(key) if isinstance(key, str) and key.isdecimal() and len(key) < 10 else key
        if not isinstance(number, int) or not isinstance(name, (str, int)):
            return None
        by_id[number] = str(name)
    if not by_id or len(by_id) != len(names) or sorted(by_id) != list(range(len(by_id))):
        return None
    return tuple(by_id[number] for number in range(len(by_id)))
