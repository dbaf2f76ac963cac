"""config.pbtxt read with Triton's own ModelConfig protobuf."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from convertor.by_path import load_by_path
from convertor.errors import RefusedError


@dataclass(frozen=True)
class TensorDims:
    """A declared input or output of a model: `dims` without the batch, -1 where free."""

    name: str
    dims: tuple[int, ...]


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


def inputs_of(config: Any) -> tuple[TensorDims, ...]:  # noqa: ANN401
    """Return a ModelConfig's inputs in order of name."""
    return _tensors(config.input)


def outputs_of(config: Any) -> tuple[TensorDims, ...]:  # noqa: ANN401
    """Return a ModelConfig's outputs in order of name."""
    return _tensors(config.output)


def ensemble_steps(config: Any) -> list[tuple[str, int]]:  # noqa: ANN401
    """Return (model name, pinned version) of every step of an ensemble; [] when this is no ensemble.

    Raises:
        ValueError: A step without a model name or a version of its own.
    """
    steps = [(str(step.model_name), int(step.model_version)) for step in config.ensemble_scheduling.step]
    if not all(name and version for name, version in steps):
        raise ValueError(f"{config.name}: expected a model name and a pinned version in every step, got {steps}")
    return steps


def _tensors(declared: Any) -> tuple[TensorDims, ...]:  # noqa: ANN401
    found = (TensorDims(str(tensor.name), tuple(tensor.dims)) for tensor in declared)
    return tuple(sorted(found, key=lambda tensor: tensor.name))


@lru_cache(maxsize=1)
def _model_config_pb2() -> ModuleType:
    """Load tritonclient's generated module by file: the usual import brings grpc, 52 MB and half a second."""
    package = find_spec("tritonclient")
    if package is None or not package.submodule_search_locations:
        raise RefusedError("tritonclient is not installed; pip install triton-convertor again")
    path = Path(package.submodule_search_locations[0]) / "grpc" / "model_config_pb2.py"
    return load_by_path("_triton_model_config_pb2", path)
