"""Rotated boxes: suppression by probabilistic IoU, the way back to source pixels, the box around them.

A box is cx, cy, w, h and the angle by which its width is turned from the x axis towards the y axis, radians. Angles are
what the head gives: Ultralytics (8.4) brings them into no range either.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ..geometry import FloatArray, FrameGeometry

IndexArray = npt.NDArray[np.intp]

# Ultralytics' guard against divisions by zero; of a size that counts for the tiniest boxes.
EPSILON = np.float32(1e-7)
# Candidates that are judged at a time, and by how many better ones: most fall to the very best.
BLOCK = 256
FIRST_RIVALS, LARGEST_RIVALS = 32, 1024


def suppress(
    boxes: FloatArray,
    angles: FloatArray,
    class_ids: npt.NDArray[Any],
    iou_threshold: float,
    max_det: int,
    class_agnostic: bool,
) -> IndexArray:
    """Return the indices of the boxes that survive, in order, at most `max_det`.

    A box is dropped when any better one of its class (of any class with `class_agnostic`), dropped itself or not, has
    a probabilistic IoU above `iou_threshold`: "fast NMS" (arXiv 1904.02689), as Ultralytics has it.

    Args:
        boxes: float32 [n, 4], cx, cy, w, h with positive sizes, best first.
        angles: float32 [n], finite.
        class_ids: [n].
        iou_threshold: 0..1.
        max_det: How many survivors are wanted.
        class_agnostic: Compare boxes of different classes too.
    """
    rivals = _Rivals(boxes, angles, np.zeros_like(class_ids) if class_agnostic else class_ids, iou_threshold)
    survivors, count = [np.zeros(0, np.intp)], 0
    for start in range(0, len(boxes), BLOCK):
        survivors.append(rivals.survivors(start, min(start + BLOCK, len(boxes))))
        count += len(survivors[-1])
        if count >= max_det:
            break
    return np.concatenate(survivors)[:max_det]


class _Rivals:
    """Boxes as Gaussians (arXiv 2106.06072), in the memory order that pairwise arithmetic is fast in."""

    def __init__(self, boxes: FloatArray, angles: FloatArray, groups: npt.NDArray[Any], iou_threshold: float) -> None:
        self._groups = groups
        self._threshold = np.float32(iou_threshold)
        cos, sin = np.cos(angles), np.sin(angles)
        with np.errstate(over="ignore", invalid="ignore"):
            along, across = (boxes[:, 2:] ** 2 / np.float32(12)).T
            a, b = along * cos**2 + across * sin**2, along * sin**2 + across * cos**2
            c = (along - across) * cos * sin
            self._gaussians = np.stack([*boxes[:, :2].T, a, b, c, np.maximum(a * b - c**2, 0)])
        # The distance alone keeps boxes apart: at least a quarter of its square, in units of the larger variance,
        # is in the exponent, and nothing below zero is added. A little is left for rounding.
        exponent = -math.log(max(1 + float(EPSILON) - (1 - iou_threshold) ** 2, float(EPSILON)))
        self._reach = np.maximum(along, across) * np.float32(4 * max(exponent, 0) * 1.05 + 1e-3)

    def survivors(self, start: int, stop: int) -> IndexArray:
        """Return which of the candidates from `start` to before `stop` no better one drops."""
        left, first, size = np.arange(start, stop), 0, FIRST_RIVALS
        while len(left) and first < left[-1]:
            rivals = np.arange(first, min(first + size, int(left[-1])))
            left = left[~self._dropped(rivals, left)]
            first, size = first + size, min(2 * size, LARGEST_RIVALS)
        return left

    def _dropped(self, rivals: IndexArray, candidates: IndexArray) -> npt.NDArray[np.bool_]:
        """Return which candidates a rival before them drops."""
        near = self._near(rivals, candidates)
        near &= rivals[:, None] < candidates
        near &= self._groups[rivals][:, None] == self._groups[candidates]
        rows, columns = near.nonzero()
        alike = _probabilistic_iou(
            self._gaussians.take(rivals[rows], axis=1), self._gaussians.take(candidates[columns], axis=1)
        )
        dropped = np.zeros(len(candidates), bool)
        dropped[columns[alike > self._threshold]] = True
        return dropped

    def _near(self, rivals: IndexArray, candidates: IndexArray) -> npt.NDArray[np.bool_]:
        with np.errstate(over="ignore", invalid="ignore"):
            x, y = self._gaussians[:2, rivals, None] - self._gaussians[:2, None, candidates]
            x *= x
            y *= y
            x += y
            return x <= self._reach[rivals][:, None] + self._reach[candidates]


def _probabilistic_iou(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the probabilistic IoU [n] of Gaussians [6, n]: x, y, the covariance's a, b, c, its determinant."""
    with np.errstate(all="ignore"):
        x, y = second[0] - first[0], first[1] - second[1]
        a, b, c = first[2:5] + second[2:5]
        determinant = a * b - c * c
        distance = (a * y * y + b * x * x) / (determinant + EPSILON) * np.float32(0.25)
        distance += c * x * y / (determinant + EPSILON) * np.float32(0.5)
        shape = determinant / (4 * np.sqrt(first[5] * second[5]) + EPSILON) + EPSILON
        distance += np.log(shape) * np.float32(0.5)
        # Bhattacharyya's coefficient gives Hellinger's distance.
        hellinger = np.sqrt(1 - np.exp(-np.clip(distance, EPSILON, np.float32(100))) + EPSILON)
    return 1 - hellinger


def to_source(boxes: FloatArray, angles: FloatArray, frame: FrameGeometry) -> FloatArray:
    """Return cx, cy, w, h, angle [n, 5] in source pixels of boxes in pixels of the network's input.

    Letterboxed images: width and height are divided by the factors of x and y, whatever the angle, as Ultralytics does
    it; the two differ by rounding to whole pixels only. Stretched ones: a turned rectangle is a parallelogram in the
    source; the smallest rectangle around it is returned.
    """
    centres = frame.points_to_source(boxes[:, :2])
    vertical, horizontal = frame.source_per_pixel
    rounding = 1 / frame.resized[0] + 1 / frame.resized[1]
    if abs(vertical / horizontal - 1) <= rounding:
        return np.column_stack([centres, boxes[:, 2:] * np.array([horizontal, vertical], np.float32), angles])
    return np.column_stack([centres, *_around_stretched(boxes[:, 2:], angles, (horizontal, vertical))])


def _around_stretched(
    sizes: FloatArray, angles: FloatArray, factors: tuple[float, float]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return width, height and angle of the smallest rectangles around stretched ones; one side lies on theirs."""
    cos, sin = np.cos(angles), np.sin(angles)
    stretch = np.array(factors, np.float32)[:, None]
    width, height = sizes[:, 0] * np.stack([cos, sin]) * stretch, sizes[:, 1] * np.stack([-sin, cos]) * stretch
    tiny = np.finfo(np.float32).tiny
    wide, tall = np.maximum(np.hypot(*width), tiny), np.maximum(np.hypot(*height), tiny)
    projected, area = np.abs((width * height).sum(axis=0)), np.abs(width[0] * height[1] - width[1] * height[0])
    on_width = wide + projected / wide, area / wide
    on_height = area / tall, tall + projected / tall
    better = on_width[0] * on_width[1] <= on_height[0] * on_height[1]
    turned = np.where(better, np.arctan2(width[1], width[0]), np.arctan2(-height[0], height[1]))
    return np.where(better, on_width[0], on_height[0]), np.where(better, on_width[1], on_height[1]), turned


def enclosing(rotated: FloatArray) -> FloatArray:
    """Return the xyxy boxes [n, 4] around cx, cy, w, h, angle [n, 5]."""
    cos, sin = np.abs(np.cos(rotated[:, 4])), np.abs(np.sin(rotated[:, 4]))
    width, height = rotated[:, 2] / 2, rotated[:, 3] / 2
    half = np.column_stack([width * cos + height * sin, width * sin + height * cos])
    return np.concatenate([rotated[:, :2] - half, rotated[:, :2] + half], axis=1)
