"""Draws training sets with all cores and serves them as augmented batches."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import cv2
import numpy as np
import torch
from torch import Tensor

from training.frames import IMAGENET_MEAN, IMAGENET_STD, letterbox, stretch
from training.scenes import MAX_PARTS, TRAINING_SIZES, draw_parts, draw_surface


@dataclass
class PartsSet:
    """Drawn parts at network size.

    Attributes:
        images: uint8 [n, side, side, 3].
        boxes: float32 [n, MAX_PARTS, 4], xyxy, network pixels; zero in unused rows.
        class_ids: int64 [n, MAX_PARTS]; -1 in unused rows.
    """

    images: Tensor
    boxes: Tensor
    class_ids: Tensor


def _parts_sample(seed: int, side: int, keep_aspect: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    cv2.setNumThreads(1)
    scene = draw_parts(seed, TRAINING_SIZES[seed % len(TRAINING_SIZES)], "train")
    frame = (letterbox if keep_aspect else stretch)(scene.image, side)
    boxes = np.zeros((MAX_PARTS, 4), np.float32)
    class_ids = np.full(MAX_PARTS, -1, np.int64)
    boxes[: len(scene.boxes)] = frame.to_network(scene.boxes)
    class_ids[: len(scene.boxes)] = scene.class_ids
    return frame.image, boxes, class_ids


def _surface_sample(seed: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    cv2.setNumThreads(1)
    scene = draw_surface(seed, TRAINING_SIZES[seed // 2 % len(TRAINING_SIZES)], "train", flawed=seed % 2 == 1)
    classes = cv2.resize(scene.pixel_classes, (side, side), interpolation=cv2.INTER_NEAREST)
    return stretch(scene.image, side).image, classes


def _draw(sample: partial, count: int) -> list[Tensor]:
    """Draw seeds 0..count-1 in worker processes and stack each field."""
    # CUDA does not survive a fork, and it may be in use already: fork from a clean server.
    context = multiprocessing.get_context("forkserver")
    with context.Pool(os.cpu_count()) as pool:
        fields = zip(*pool.imap(sample, range(count), chunksize=64))
        return [torch.from_numpy(np.stack(field)) for field in fields]


def draw_parts_set(count: int, side: int, keep_aspect: bool, device: torch.device) -> PartsSet:
    """Draw `count` training scenes, letterboxed or stretched to side x side."""
    sample = partial(_parts_sample, side=side, keep_aspect=keep_aspect)
    return PartsSet(*(field.to(device) for field in _draw(sample, count)))


def draw_surface_set(count: int, side: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Draw `count` plates, half of them flawed: uint8 images [n, side, side, 3] and pixel classes [n, side, side]."""
    images, classes = _draw(partial(_surface_sample, side=side), count)
    return images.to(device), classes.to(device)


def shuffled(count: int, batch: int, steps: int, device: torch.device) -> Iterator[Tensor]:
    """Yield `steps` index tensors [batch], epoch by epoch in random order."""
    order = torch.randperm(count, device=device)
    position = 0
    for _ in range(steps):
        if position + batch > count:
            order, position = torch.randperm(count, device=device), 0
        yield order[position : position + batch]
        position += batch


def jitter(images: Tensor) -> Tensor:
    """Turn uint8 [B, H, W, 3] into float32 [B, 3, H, W] of 0..1 with random gain, offset and tint per image."""
    values = images.permute(0, 3, 1, 2).float() / 255
    count = len(values)
    gain = 1 + (torch.rand(count, 3, 1, 1, device=values.device) - 0.5) * 0.3
    gain = gain * (1 + (torch.rand(count, 1, 1, 1, device=values.device) - 0.5) * 0.4)
    offset = (torch.rand(count, 1, 1, 1, device=values.device) - 0.5) * 0.15
    return (values * gain + offset).clamp(0, 1)


def normalized(values: Tensor) -> Tensor:
    """Take ImageNet's mean and deviation out of [B, 3, H, W] values of 0..1."""
    mean, std = (torch.tensor(v, device=values.device).view(1, 3, 1, 1) for v in (IMAGENET_MEAN, IMAGENET_STD))
    return (values - mean) / std


def parts_batch(parts: PartsSet, indices: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return jittered and randomly mirrored images [B, 3, side, side], boxes in pixels and class ids."""
    images, boxes, class_ids = jitter(parts.images[indices]), parts.boxes[indices].clone(), parts.class_ids[indices]
    side = images.shape[-1]
    for axis in (0, 1):
        if torch.rand(()) < 0.5:
            images = images.flip(3 - axis)
            low, high = boxes[..., axis].clone(), boxes[..., axis + 2].clone()
            boxes[..., axis], boxes[..., axis + 2] = side - high, side - low
    return images, boxes, class_ids
