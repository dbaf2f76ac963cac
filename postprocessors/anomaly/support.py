"""What the tool must know of anomaly heads. Standard library only; loaded by file path, never at run time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Stage types of anomaly packages are free words (code names of the trainer): the task's own name stands for them all.
NAMES = frozenset({"anomaly"})
TASKS = frozenset({"anomaly"})
DEFAULTS: dict[str, Any] = {
    "threshold": 0.5,
    # As the capture world's two-neuron heads have it: index 0 anomalous, index 1 normal.
    "class_normal_ids": [1],
    "pixel_class_names": [],
}


def check(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> list[str]:
    """Return what cannot work, field first; `facts` may be None when the graph is not known."""
    del facts
    known = {"classes", "score", "map", "pixel_classes"}
    return [
        f"outputs.{meaning}: expected one of {', '.join(sorted(known))} for an anomaly model, got {meaning!r}; "
        "correct it"
        for meaning in manifest["outputs"]
        if meaning not in known
    ]
