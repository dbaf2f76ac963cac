"""A small anomaly network with every kind of head: class probabilities, map, score and pixel classes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from training.layers import ConvBlock, Residual

TOP_PIXELS = 32


class AnomalyNetwork(nn.Module):
    """Three down steps, two up steps; pixel logits at half the input's resolution, enlarged bilinearly.

    In training mode the output is class logits [B, 2], score logit [B, 1] and pixel logits [B, K, H, W]; in eval mode
    class probabilities [B, 2] (0 anomaly, 1 normal), map [B, 1, H, W] of 0..1, score [B, 1] of 0..1, pixel logits.
    """

    def __init__(self, pixel_classes: int) -> None:
        super().__init__()
        self.to_half = nn.Sequential(ConvBlock(3, 16, stride=2), Residual(16))
        self.to_quarter = nn.Sequential(ConvBlock(16, 32, stride=2), Residual(32))
        self.to_eighth = nn.Sequential(ConvBlock(32, 48, stride=2), Residual(48), Residual(48))
        self.to_sixteenth = nn.Sequential(ConvBlock(48, 64, stride=2), Residual(64))
        self.merges = nn.ModuleList([ConvBlock(64 + 48, 48, 1), ConvBlock(48 + 32, 32, 1), ConvBlock(32 + 16, 24, 1)])
        self.pixels = nn.Sequential(ConvBlock(24, 24), nn.Conv2d(24, pixel_classes, 1))
        self.classes = nn.Linear(2 * 64, 2)
        self.calibration = nn.Linear(1, 1)
        nn.init.ones_(self.calibration.weight)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Judge normalised [B, 3, H, W]."""
        maps = [half := self.to_half(x), quarter := self.to_quarter(half), self.to_eighth(quarter)]
        deep = self.to_sixteenth(maps[2])
        up = deep
        for merge, skip in zip(self.merges, reversed(maps)):
            up = merge(torch.cat([functional.interpolate(up, scale_factor=2.0), skip], dim=1))
        coarse = self.pixels(up).float()
        classes = self.classes(torch.cat([deep.mean(dim=(2, 3)), deep.amax(dim=(2, 3))], dim=1)).float()
        evidence = (coarse[:, 1:].amax(dim=1) - coarse[:, 0]).flatten(1)
        score = self.calibration(evidence.topk(TOP_PIXELS, dim=1).values.mean(dim=1, keepdim=True)).float()
        logits = functional.interpolate(coarse, scale_factor=2.0, mode="bilinear", align_corners=False)
        if self.training:
            return classes, score, logits
        anomaly_map = 1 - logits.softmax(dim=1)[:, :1]
        return classes.softmax(dim=1), anomaly_map, score.sigmoid(), logits


def loss(network: AnomalyNetwork, images: Tensor, truth: Tensor) -> Tensor:
    """Return the loss of one batch; `truth` is the pixel classes [B, H, W], int64."""
    classes, score, logits = network(images)
    flawed = (truth > 0).flatten(1).any(dim=1)
    pixel_loss = functional.cross_entropy(logits, truth)
    goals = functional.one_hot(truth, logits.shape[1]).permute(0, 3, 1, 2)[:, 1:]
    chances = logits.softmax(dim=1)[:, 1:]
    shared, total = (chances * goals).sum(dim=(0, 2, 3)), (chances + goals).sum(dim=(0, 2, 3))
    dice_loss = 1 - (2 * shared / (total + 1)).mean()
    class_loss = functional.cross_entropy(classes, (~flawed).long())
    score_loss = functional.binary_cross_entropy_with_logits(score[:, 0], flawed.float())
    return 4 * pixel_loss + dice_loss + class_loss + 0.5 * score_loss
