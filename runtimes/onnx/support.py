"""What the tool must know of ONNX Runtime. Standard library only; loaded by file path, never at run time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


def read_facts(artifact: str, files: Mapping[str, int], read: Callable[[str, int], bytes]) -> tuple[None, list[str]]:
    """Return no facts and a problem: asked only for a name that does not end in .onnx, which `convert` does not read.

    ONNX Runtime takes a graph by any name, and old ones external data from anywhere: unread, nothing would be checked.

    Args:
        artifact: The artifact's name in the package.
        files: Not looked at.
        read: Not called.
    """
    del files, read
    return None, [
        f"{artifact}: expected a name that ends in .onnx, by which convert knows the graph that it has to check; "
        "rename it"
    ]
