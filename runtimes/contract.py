"""What every engine's runner looks like, and how one is made.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
A runtime is the folder `runtimes/<name>/`; its `runner.py` has `create(options) -> Runner` and imports the engine.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy.typing as npt

Array = npt.NDArray[Any]


class RunnerError(Exception):
    """The engine or its artifact cannot be used here; the text is one line that says what to do."""


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of a graph.

    Attributes:
        name: The graph's own name; may be empty where an engine loses names.
        dtype: NumPy's name of the element type ("float32", "uint8", ...).
        shape: One entry per axis; None where the graph leaves it open.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True)
class RunnerOptions:
    """What a runner is made from.

    Attributes:
        artifact: The engine's file, inside the model's artifact folder.
        device: "auto", "cpu", "gpu" or "tensorrt".
        device_id: Which GPU, from Triton's `model_instance_device_id`.
        threads: Threads the engine may use; 0 means as many as this process may run on.
        tf32: Whether a GPU may round float32 products to TensorFloat-32: faster, and engines differ by some 1e-3.
            Without it they agree within 1e-4, on which a fleet that moves from one to another relies.
        allow_pickles: Whether artifacts may be loaded that run code of their own; only the operator says so.
    """

    artifact: Path
    device: str = "auto"
    device_id: int = 0
    threads: int = 0
    tf32: bool = False
    allow_pickles: bool = False


class Runner(Protocol):
    """A loaded engine.

    Calling it takes a batch of one image or more, float32 or uint8, in the layout of `inputs[0]`, and returns one array
    per entry of `outputs`, in that order; floating outputs come back as float32. A graph whose batch is fixed runs in
    slices (slices.py). The call is safe from several threads.
    """

    @property
    def inputs(self) -> Sequence[TensorSpec]:
        """The graph's inputs; the first is the image."""
        ...

    @property
    def outputs(self) -> Sequence[TensorSpec]:
        """The graph's outputs in the order of a call's result; some engines know them after the first call only."""
        ...

    @property
    def details(self) -> Mapping[str, str]:
        """What really runs: engine, version, device, providers, threads.

        `device` is always there. `fallback` is there only where the wanted device (for auto: a GPU; for tensorrt:
        TensorRT) was not got, and says why; `warning` only where an operator should know what was loaded.
        """
        ...

    def __call__(self, batch: Array) -> list[Array]:
        """Run one batch."""
        ...

    def close(self) -> None:
        """Release the engine; a later call is an error."""
        ...


def make_runner(runtime: str, options: RunnerOptions) -> Runner:
    """Load the engine of `runtimes/<runtime>/`.

    Raises:
        RunnerError: The runtime is not part of this model, its engine is not installed, or it refuses the artifact.
    """
    module_name = f"{__package__}.{runtime}.runner"
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise
        raise RunnerError(f"runtime {runtime}: not part of this model; convert the package again") from error
    return module.create(options)
