"""Box arithmetic on tensors; boxes are the last axis."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def to_corners(boxes: Tensor) -> Tensor:
    """Turn cx cy w h into x1 y1 x2 y2."""
    centre, extent = boxes.split(2, dim=-1)
    return torch.cat([centre - extent / 2, centre + extent / 2], dim=-1)


def to_centres(boxes: Tensor) -> Tensor:
    """Turn x1 y1 x2 y2 into cx cy w h."""
    low, high = boxes.split(2, dim=-1)
    return torch.cat([(low + high) / 2, high - low], dim=-1)


def _overlap(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return IoU and union of corner boxes that broadcast against each other."""
    low = torch.maximum(first[..., :2], second[..., :2])
    high = torch.minimum(first[..., 2:], second[..., 2:])
    shared = (high - low).clamp(min=0).prod(dim=-1)
    areas = [(boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(dim=-1) for boxes in (first, second)]
    union = areas[0] + areas[1] - shared
    return shared / (union + 1e-9), union


def _hull(first: Tensor, second: Tensor) -> Tensor:
    """Return width and height of the smallest box around both."""
    return torch.maximum(first[..., 2:], second[..., 2:]) - torch.minimum(first[..., :2], second[..., :2])


def iou(first: Tensor, second: Tensor) -> Tensor:
    """Return the IoU of corner boxes that broadcast against each other."""
    return _overlap(first, second)[0]


def giou(first: Tensor, second: Tensor) -> Tensor:
    """Return the generalised IoU (Rezatofighi et al., 2019)."""
    overlap, union = _overlap(first, second)
    hull = _hull(first, second).prod(dim=-1)
    return overlap - (hull - union) / (hull + 1e-9)


def ciou(first: Tensor, second: Tensor) -> Tensor:
    """Return the complete IoU (Zheng et al., 2020) of predictions `first` and truth `second`."""
    overlap = iou(first, second)
    (centre_a, size_a), (centre_b, size_b) = (to_centres(boxes).split(2, dim=-1) for boxes in (first, second))
    distance = (centre_a - centre_b).square().sum(dim=-1) / (_hull(first, second).square().sum(dim=-1) + 1e-9)
    angles = [torch.atan(size[..., 0] / (size[..., 1] + 1e-9)) for size in (size_a, size_b)]
    shape = 4 / math.pi**2 * (angles[0] - angles[1]).square()
    with torch.no_grad():
        weight = shape / (shape - overlap + 1 + 1e-7)
    return overlap - distance - weight * shape
