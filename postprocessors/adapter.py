"""The output adapter: which raw tensor means what, and the activation that the graph lacks.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def sigmoid(values: Array) -> npt.NDArray[np.float32]:
    """Return 1 / (1 + exp(-x)) as float32; the whole float32 range is safe, NaN stays NaN."""
    # exp(88) is the last finite float32 power; beyond it the result is 0 or 1 to the last bit anyway.
    clipped = np.clip(values.astype(np.float32, copy=False), np.float32(-88), np.float32(88))
    return np.float32(1) / (np.float32(1) + np.exp(-clipped))


def softmax(values: Array, axis: int = -1) -> npt.NDArray[np.float32]:
    """Return exp(x) / sum(exp(x)) along `axis` as float32; NaN counts as minus infinity, all of them give zeros."""
    present = values > -np.inf
    # Infinities would meet as inf - inf; half of the largest finite float32 ranks the same.
    limit = np.finfo(np.float32).max / 2
    logits = np.clip(np.where(present, values, -limit), -limit, limit).astype(np.float32)
    powers = np.where(present, np.exp(logits - logits.max(axis=axis, keepdims=True)), np.float32(0))
    # The largest logit's power is 1: the sum is below that only where there is none.
    return powers / np.maximum(powers.sum(axis=axis, keepdims=True), np.float32(1))


def _class_axis_softmax(values: Array) -> Array:
    return softmax(values, axis=1 if values.ndim == 4 else -1)


def _class_axis_argmax(values: Array) -> Array:
    return values.argmax(axis=1 if values.ndim == 4 else -1)


def _unchanged(values: Array) -> Array:
    return values


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "none": _unchanged,
    "sigmoid": sigmoid,
    "softmax": _class_axis_softmax,
    "argmax": _class_axis_argmax,
}


class OutputAdapter:
    """Finds the raw tensor of a meaning, as the manifest's `outputs` says.

    Args:
        outputs: {meaning: {"tensor": index or name, "activation": none | sigmoid | softmax | argmax}}.
        names: The graph's output names in order.

    Raises:
        ValueError: A name or index that the graph does not have; the text lists what it has.
    """

    def __init__(self, outputs: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> None:
        self._sources = {
            meaning: (_index(meaning, source["tensor"], names), ACTIVATIONS[source.get("activation", "none")])
            for meaning, source in outputs.items()
        }

    def __bool__(self) -> bool:
        return bool(self._sources)

    def get(self, meaning: str, raw: Sequence[Array]) -> Array | None:
        """Return the tensor of `meaning` with its activation applied, or None where the manifest names none."""
        if meaning not in self._sources:
            return None
        index, activation = self._sources[meaning]
        return activation(raw[index])


def _index(meaning: str, tensor: int | str, names: Sequence[str]) -> int:
    known = ", ".join(name or f"#{position}" for position, name in enumerate(names))
    if isinstance(tensor, str):
        if tensor not in names:
            raise ValueError(f"outputs.{meaning}: the graph has no output {tensor!r}; it has {known}")
        return list(names).index(tensor)
    if not 0 <= tensor < len(names):
        raise ValueError(f"outputs.{meaning}: the graph has no output number {tensor}; it has {known}")
    return tensor
