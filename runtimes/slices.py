"""Any number of images through a graph whose batch is fixed.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import numpy as np
import numpy.typing as npt

from .contract import RunnerError

Array = npt.NDArray[Any]


def run_in_slices(
    run: Callable[[Array], list[Array]], batch: Array, size: int | None, names: Sequence[str] = ()
) -> list[Array]:
    """Return the outputs of a batch of any length from an engine that takes exactly `size` images at once.

    The last slice is filled up with copies of its last image, whose results are cut off again: an image of zeros could
    make a network divide by nothing.

    Args:
        run: The engine: a batch in, one array per output.
        batch: The images, batch axis first.
        size: The graph's batch; None where it takes any.
        names: The outputs' names, for the error.

    Raises:
        RunnerError: An output has no batch axis of `size`, so that it cannot be cut or joined; it is named.
    """
    if size is None or len(batch) == size:
        return run(batch)
    outputs = [_run_slice(run, batch[start : start + size], size, names) for start in range(0, len(batch), size)]
    return [np.concatenate(parts) for parts in zip(*outputs)] if len(outputs) > 1 else outputs[0]


def _run_slice(run: Callable[[Array], list[Array]], part: Array, size: int, names: Sequence[str]) -> list[Array]:
    missing = size - len(part)
    filled = np.concatenate([part, np.repeat(part[-1:], missing, axis=0)]) if missing else part
    # One image may give one bare number.
    outputs = [output.reshape(1) if size == 1 and not output.ndim else output for output in run(filled)]
    for index, output in enumerate(outputs):
        if not output.ndim or len(output) != size:
            name = names[index] if index < len(names) and names[index] else f"#{index}"
            raise RunnerError(
                f"output {name}: expected the graph's batch of {size} as its first axis, got {list(output.shape)}; "
                "export the model with a free batch"
            )
    return [output[: len(part)] for output in outputs]
