"""An engine that sees pixels, requests of the tensors profile, and what comes back, under the fake pb_utils."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import triton_python_backend_utils as pb_utils
from runtimes.contract import RunnerError, TensorSpec
from tests.payload.base.conftest import PREPROCESS, Loader, ScriptedRunner

DETECTION = ("num_dets", "det_boxes", "det_scores", "det_classes", "detections")
DRAWN = "overlay_detections"
MOST = 5
POISON, NONSENSE = 255, 254


class SeeingRunner(ScriptedRunner):
    """An engine whose answer to an image follows from its pixels, whatever else is in the batch.

    Images are of one colour. Red says where things are; green POISON makes the whole call fail.
    """

    def __init__(self, answer: Callable[[int, int], list[np.ndarray]], outputs: int = 1) -> None:
        super().__init__()
        self._answer = answer
        self.outputs = [TensorSpec("", "float32", ())] * outputs

    def __call__(self, batch: np.ndarray) -> list[np.ndarray]:
        self.batches.append(batch)
        colours = np.rint(batch[:, :, 0, 0] * 255).astype(int)
        if (colours[:, 1] == POISON).any():
            raise RunnerError("poison")
        return [np.concatenate(parts) for parts in zip(*[self._answer(red, blue) for red, _, blue in colours])]


class SingleRunner(SeeingRunner):
    """An engine that fails on several images, from the call numbered `start` on."""

    start = 0

    def __call__(self, batch: np.ndarray) -> list[np.ndarray]:
        if len(batch) > 1 and len(self.batches) >= self.start:
            raise RunnerError("index out of range")
        return super().__call__(batch)


def boxes(red: int, blue: int) -> list[np.ndarray]:
    """Return a YOLO head of two classes with red % 4 boxes; blue NONSENSE gives scores that cannot be."""
    raw = np.zeros((1, 6, 9), np.float32)
    for index in range(red % 4):
        raw[0, :4, index] = 2 + 2 * index, 3, 1.5, 2
        raw[0, 4 + index % 2, index] = 0.9 - index / 10 if blue != NONSENSE else 7.5
    return [raw]


def segments(red: int, blue: int) -> list[np.ndarray]:
    """Return the same boxes with two mask coefficients behind them, and prototypes whose first is above 0."""
    head = np.concatenate([*boxes(red, blue), np.zeros((1, 2, 9), np.float32)], axis=1)
    head[0, 6] = 1
    prototypes = np.ones((1, 2, 4, 4), np.float32)
    return [head, prototypes]


def load_detector(load: Loader, runner: SeeingRunner | None = None, **described: Any) -> Any:
    """Return a detector of the tensors profile."""
    decode = {"num_classes": 2, "max_det": MOST, **described.pop("decode", {})}
    described = {
        "profile": "tensors",
        "max_batch_size": 8,
        "names": (*DETECTION, DRAWN),
        "class_names": ["dog", "Füße"],
        "preprocess": PREPROCESS,
        **described,
    }
    return load(runner=runner or SeeingRunner(boxes), decode=decode, **described)


def image(red: int = 3, green: int = 0, blue: int = 0, size: tuple[int, int] = (16, 32)) -> np.ndarray:
    """Return a batch of one image, uint8 [1, H, W, 3]."""
    return np.full((1, *size, 3), (red, green, blue), np.uint8)


def request(pixels: np.ndarray | None, wanted: tuple[str, ...] = (), **parameters: Any) -> pb_utils.InferenceRequest:
    inputs = [] if pixels is None else [pb_utils.Tensor("input", pixels)]
    return pb_utils.InferenceRequest(inputs=inputs, requested_output_names=wanted, parameters=parameters)


def ask(model: Any, *requests: pb_utils.InferenceRequest) -> list[pb_utils.InferenceResponse]:
    responses = model.execute(list(requests))
    assert len(responses) == len(requests)
    return responses


def values(response: pb_utils.InferenceResponse) -> dict[str, np.ndarray]:
    error = response.error()
    assert error is None, error.message()
    found = {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}
    assert all(value.flags.c_contiguous for value in found.values())
    return found


def listed(value: np.ndarray) -> Any:
    return json.loads(value.tobytes(), parse_constant=pytest.fail)


def described(found: Mapping[str, np.ndarray]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return dtype and shape of each output; the length of text, which follows from the content, as -1."""
    return {
        name: (str(value.dtype), value.shape if name not in ("detections", "det_masks", DRAWN) else (len(value), -1))
        for name, value in found.items()
    }
