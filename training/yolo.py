"""A small anchor-free YOLO-layout detector and its loss (task-aligned assignment, Feng et al., 2021)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from training.boxes import ciou, iou
from training.layers import Backbone, ConvBlock, Residual

STRIDES = (8, 16, 32)


class Head(nn.Module):
    """Per cell of one map: four distances to the box's sides, in strides, and a logit per class."""

    def __init__(self, inputs: int, classes: int, width: int = 32) -> None:
        super().__init__()
        self.boxes = nn.Sequential(ConvBlock(inputs, width), nn.Conv2d(width, 4, 1))
        self.classes = nn.Sequential(ConvBlock(inputs, width), nn.Conv2d(width, classes, 1))
        nn.init.constant_(self.boxes[-1].bias, 1.0)
        nn.init.constant_(self.classes[-1].bias, -math.log(99))

    def forward(self, x: Tensor) -> Tensor:
        """Map [B, C, H, W] to [B, 4 + classes, H * W]."""
        return torch.cat([functional.softplus(self.boxes(x)), self.classes(x)], dim=1).flatten(2)


class YoloDetector(nn.Module):
    """Backbone, a top-down and bottom-up neck, three heads.

    In training mode the output is corner boxes [B, N, 4] in pixels and class logits [B, N, C]; in eval mode it is the
    YOLO layout [B, 4 + C, N]: cx cy w h in network-input pixels, class scores with the sigmoid applied.
    """

    def __init__(self, classes: int, side: int) -> None:
        super().__init__()
        low, middle, high = widths = (32, 48, 72)
        self.backbone = Backbone((16, 24, *widths))
        self.down_middle = nn.Sequential(ConvBlock(high + middle, middle, 1), Residual(middle))
        self.down_low = nn.Sequential(ConvBlock(middle + low, low, 1), Residual(low))
        self.up_middle = nn.Sequential(ConvBlock(low + middle, middle, 1), Residual(middle))
        self.shrink = ConvBlock(low, low, stride=2)
        self.heads = nn.ModuleList(Head(width, classes) for width in widths)
        centres, strides = zip(*(self._cells(side // stride, stride) for stride in STRIDES))
        self.register_buffer("centres", torch.cat(centres, dim=1), persistent=False)
        self.register_buffer("strides", torch.cat(strides), persistent=False)

    @staticmethod
    def _cells(count: int, stride: int) -> tuple[Tensor, Tensor]:
        """Return the cell centres [2, N] (x, y; pixels) and the stride [N] of one map."""
        places = (torch.arange(count, dtype=torch.float32) + 0.5) * stride
        ys, xs = torch.meshgrid(places, places, indexing="ij")
        return torch.stack([xs.flatten(), ys.flatten()]), torch.full((count * count,), float(stride))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor] | Tensor:
        """Detect in [B, 3, side, side] of 0..1."""
        low, middle, high = self.backbone(x)
        middle = self.down_middle(torch.cat([functional.interpolate(high, scale_factor=2.0), middle], dim=1))
        low = self.down_low(torch.cat([functional.interpolate(middle, scale_factor=2.0), low], dim=1))
        middle = self.up_middle(torch.cat([self.shrink(low), middle], dim=1))
        raw = torch.cat([head(level) for head, level in zip(self.heads, (low, middle, high))], dim=2)
        raw = raw.float()
        before, after = raw[:, :2] * self.strides, raw[:, 2:4] * self.strides
        corners = torch.cat([self.centres - before, self.centres + after], dim=1)
        if self.training:
            return corners.transpose(1, 2), raw[:, 4:].transpose(1, 2)
        centre = (corners[:, :2] + corners[:, 2:]) / 2
        return torch.cat([centre, corners[:, 2:] - corners[:, :2], raw[:, 4:].sigmoid()], dim=1)


@torch.no_grad()
def assign(
    centres: Tensor, boxes: Tensor, scores: Tensor, truth: Tensor, labels: Tensor, top: int = 10
) -> tuple[Tensor, Tensor]:
    """Choose the cells that answer for each true box.

    Args:
        centres: Cell centres [N, 2].
        boxes: Predicted corner boxes [B, N, 4].
        scores: Predicted class scores [B, N, C].
        truth: True corner boxes [B, M, 4].
        labels: True class ids [B, M]; -1 in unused rows.
        top: Cells per true box at most.

    Returns:
        The true box's row per cell [B, N], -1 where none, and the target score per cell [B, N].
    """
    overlaps = iou(truth[:, :, None], boxes[:, None])
    index = labels.clamp(min=0)[:, :, None].expand(-1, -1, scores.shape[1])
    mine = scores.transpose(1, 2).gather(1, index)
    inside = (torch.minimum(centres - truth[:, :, None, :2], truth[:, :, None, 2:] - centres) > 0).all(dim=-1)
    allowed = inside & (labels >= 0)[:, :, None]
    quality = mine.sqrt() * overlaps.pow(6) * allowed
    least = quality.topk(top, dim=-1).values[..., -1:]
    chosen = allowed & (quality >= least) & (quality > 0)
    # A cell wanted by several true boxes goes to the one it overlaps most.
    best = (overlaps * chosen).argmax(dim=1, keepdim=True)
    chosen = chosen & torch.zeros_like(chosen).scatter(1, best, True)
    quality = quality * chosen
    peak = (overlaps * chosen).amax(dim=-1, keepdim=True)
    target = (quality / (quality.amax(dim=-1, keepdim=True) + 1e-9) * peak).amax(dim=1)
    return torch.where(chosen.any(dim=1), best.squeeze(1), -1), target


def loss(network: YoloDetector, images: Tensor, truth: Tensor, labels: Tensor) -> Tensor:
    """Return the loss of one batch: class cross-entropy and CIoU, both weighted by the target score."""
    boxes, logits = network(images)
    rows, target = assign(network.centres.T, boxes, logits.sigmoid(), truth, labels)
    hit = rows >= 0
    safe = rows.clamp(min=0)
    class_ids = labels.clamp(min=0).gather(1, safe)
    goals = functional.one_hot(class_ids, logits.shape[-1]) * (target * hit)[..., None]
    scale = target[hit].sum().clamp(min=1)
    class_loss = functional.binary_cross_entropy_with_logits(logits, goals, reduction="sum") / scale
    true_boxes = truth.gather(1, safe[..., None].expand(-1, -1, 4))
    box_loss = ((1 - ciou(boxes[hit], true_boxes[hit])) * target[hit]).sum() / scale
    return class_loss + 5 * box_loss
