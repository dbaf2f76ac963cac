"""What the tool must know of ONNX Runtime. Standard library only; loaded by file path, never at run time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAMES = frozenset({"onnx", "onnxruntime"})
ARTIFACT = "model.onnx"
DEFAULTS: dict[str, Any] = {}


def check(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> list[str]:
    """Return what cannot work, field first.

    Args:
        manifest: {"artifact": the artifact's name in the package, ...}.
        facts: What the graph says of itself ({"inputs": [{"name", "dtype", "shape"}, ...]}); None when unknown.
    """
    inputs = (facts or {}).get("inputs", [])
    if facts is None or len(inputs) == 1:
        return []
    names = ", ".join(tensor["name"] for tensor in inputs) or "none"
    return [
        f"{manifest['artifact']}: expected one input (the image), got {len(inputs)}: {names}; "
        "export the model with the image as its only input"
    ]
