"""Results as the tensors of the capture profile (`base_<m>`'s outputs).

Payload: runs inside the server's python (3.9 or newer); needs numpy.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from postprocessors.palette import colour_mask, hex_of
from postprocessors.results import AnomalyResult, Detections, Result

Array = npt.NDArray[Any]


def pack(result: Result, image_shape: Sequence[int], mask_dims: Sequence[int]) -> dict[str, Array]:
    """Return `output` uint8 [1], `output_confidence` and `output_score` float32 [1], `mask` uint8, `anomalies` uint8.

    Args:
        result: What the decoder found.
        image_shape: The request's image, (H, W, C).
        mask_dims: The mask's dims in config.pbtxt; -1 where any size may be sent.
    """
    if isinstance(result, Detections):
        return _pack_detections(result, mask_dims)
    if isinstance(result, AnomalyResult):
        return _pack_anomaly(result, image_shape)
    # convert publishes no other task in this profile.
    raise TypeError(f"the capture profile has no tensors for {type(result).__name__}")


def _pack_detections(found: Detections, mask_dims: Sequence[int]) -> dict[str, Array]:
    best = found.scores[:1] if len(found) else np.zeros(1, np.float32)
    # A full-size mask of zeros would double the round trip: one pixel where the dims allow it.
    mask = np.zeros([1, 1, 3] if -1 in mask_dims else list(mask_dims), np.uint8)
    return _tensors(len(found) > 0, best, best, mask, found.to_json())


def _pack_anomaly(result: AnomalyResult, image_shape: Sequence[int]) -> dict[str, Array]:
    if result.class_mask is None:
        mask, areas = np.zeros((*image_shape[:2], 3), np.uint8), []
    else:
        mask, areas = colour_mask(result.class_mask), _areas(result)
    confidence, score = np.array([result.confidence], np.float32), np.array([result.score], np.float32)
    return _tensors(result.is_anomalous, confidence, score, mask, json.dumps(areas, allow_nan=False).encode())


def _areas(result: AnomalyResult) -> list[dict[str, Any]]:
    """Return the share of the image of every class that is present, background included, in class order."""
    assert result.class_mask is not None  # noqa: S101 - the caller looked
    counts = np.bincount(result.class_mask.ravel(), minlength=len(result.class_names))
    return [
        {
            "name": result.class_names[index] if index < len(result.class_names) else f"class_{index}",
            "total_percentage_area": float(count / result.class_mask.size),
            "hex_color": hex_of(index),
        }
        for index, count in enumerate(counts)
        if count
    ]


def _tensors(found: bool, confidence: Array, score: Array, mask: Array, anomalies: bytes) -> dict[str, Array]:
    return {
        "output": np.array([found], np.uint8),
        "output_confidence": confidence,
        "output_score": score,
        "mask": mask,
        "anomalies": np.frombuffer(anomalies, np.uint8),
    }
