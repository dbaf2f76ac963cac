"""Whether there is a GPU that CUDA can use."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any


def has_gpu() -> bool:
    """Return whether cuda-bindings is installed and sees a GPU."""
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.bindings") is None:
        return False
    runtime: Any = importlib.import_module("cuda.bindings.runtime")
    error, count = runtime.cudaGetDeviceCount()
    return not int(error) and count > 0
