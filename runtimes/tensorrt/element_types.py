"""Between NumPy's element types and an engine's: what may be fed, what comes back.

Payload: runs inside the server's python (3.9 or newer); needs numpy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..contract import Array, RunnerError

# tensorrt.DataType's names -> NumPy's types of the bytes in memory. NumPy has no bfloat16: the upper half of a float32.
_STORAGE = {
    "FLOAT": "float32",
    "HALF": "float16",
    "BF16": "uint16",
    "INT8": "int8",
    "INT32": "int32",
    "INT64": "int64",
    "BOOL": "bool",
    "UINT8": "uint8",
}
_BFLOAT16 = "BF16"


class ElementType:
    """One of an engine's element types.

    Attributes:
        name: NumPy's name of the type that a caller feeds or gets; "float32" for bfloat16.
        storage: NumPy's type of the bytes in the engine's memory.

    Raises:
        RunnerError: It has no counterpart in NumPy (FP8, INT4, ...).
    """

    def __init__(self, tensor: str, name: str) -> None:
        if name not in _STORAGE:
            raise RunnerError(f"tensor {tensor}: type {name} is not one that can be served; rebuild it with float32")
        self._tensor = tensor
        self._is_bfloat16 = name == _BFLOAT16
        self.storage: np.dtype[Any] = np.dtype(_STORAGE[name])
        self.name = "float32" if self._is_bfloat16 else self.storage.name

    def write(self, values: Array, memory: Array) -> None:
        """Cast `values` into `memory`, an array of `storage` and of the same shape.

        Raises:
            RunnerError: The engine takes whole numbers, and these are not, or are out of its range.
        """
        if self._is_bfloat16:
            memory[...] = _to_bfloat16(values)
            return
        np.copyto(memory, values, casting="unsafe")
        # Pixels scaled to 0..1 would all become 0, without a sign of it.
        if self.storage.kind in "iub" and values.dtype != self.storage and not np.array_equal(memory, values):
            raise RunnerError(
                f"input {self._tensor}: takes {self.storage.name}, got values that it cannot hold "
                f"({_range(values)}); set image_range_scale to false and normalize to false, "
                "or build the plan with a float32 input"
            )

    def read(self, memory: Array) -> Array:
        """Return a copy of an output, floating types as float32."""
        if self._is_bfloat16:
            return (memory.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return memory.astype(np.float32 if self.storage.kind == "f" else self.storage)


def _to_bfloat16(values: Array) -> Array:
    """Return the upper halves of float32, rounded to nearest, ties to even; infinities stay and NaN stays NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))) >> np.uint32(16)
    is_nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.where(is_nan, np.uint32(0x7FC0), rounded).astype(np.uint16)


def _range(values: Array) -> str:
    return f"{values.min():g} to {values.max():g}" if values.size else "none"
