"""What a config.pbtxt says, as the templates take it; the configs of both profiles are made of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Tensor:
    """One input or output; `dims` without the batch, -1 where free; a ragged one may differ within a batch."""

    name: str
    data_type: str
    dims: list[int]
    ragged: bool = False


@dataclass(frozen=True)
class Batching:
    """How requests wait for others: at most so long; a preferred size does not wait any longer."""

    delay_us: int
    preferred: list[int]


@dataclass(frozen=True)
class Warmup:
    """A request that the server sends itself while it loads the model, all of its inputs uint8.

    Attributes:
        name: What the server calls it in its log.
        batch_size: How many requests at once.
        inputs: Name -> dims.
        random: Random bytes; else zeros.
    """

    name: str
    batch_size: int
    inputs: Mapping[str, list[int]]
    random: bool


def step_values(
    name: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    instances: int = 1,
    kind: str = "KIND_CPU",
    gpus: Sequence[int] = (),
    max_batch_size: int = 0,
    batching: Batching | None = None,
    warmups: Sequence[Warmup] = (),
) -> dict[str, Any]:
    """Return what templates/step.pbtxt.j2 needs."""
    return {
        "name": name,
        "max_batch_size": max_batch_size,
        "inputs": list(inputs),
        "outputs": list(outputs),
        "instances": instances,
        "kind": kind,
        "gpus": list(gpus),
        "batching": batching,
        "warmups": list(warmups),
    }


def ensemble_step(
    model: str, version: int, input_map: Mapping[str, str], output_map: Mapping[str, str]
) -> dict[str, Any]:
    """Return one step of an ensemble; the maps are {the step's tensor: the ensemble's}."""
    return {"model": model, "version": version, "input_map": input_map, "output_map": output_map}


def ensemble_values(
    name: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    steps: Sequence[Mapping[str, Any]],
    max_batch_size: int = 0,
) -> dict[str, Any]:
    """Return what templates/ensemble/config.pbtxt.j2 needs."""
    return {
        "name": name,
        "max_batch_size": max_batch_size,
        "inputs": list(inputs),
        "outputs": list(outputs),
        "steps": list(steps),
    }
