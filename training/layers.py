"""Building blocks of the three small networks."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ConvBlock(nn.Sequential):
    """Convolution, batch normalisation, SiLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs), nn.SiLU()
        )


class Residual(nn.Module):
    """Two 3x3 convolutions, the first to half the channels, around a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(ConvBlock(channels, channels // 2), ConvBlock(channels // 2, channels))

    def forward(self, x: Tensor) -> Tensor:
        """Keep the shape [B, C, H, W]."""
        return x + self.body(x)


class Backbone(nn.Module):
    """Feature maps at strides 8, 16 and 32."""

    def __init__(self, widths: tuple[int, int, int, int, int] = (16, 24, 40, 64, 96)) -> None:
        super().__init__()
        stem, *rest = widths
        self.stem = nn.Sequential(ConvBlock(3, stem, stride=2), ConvBlock(stem, rest[0], stride=2), Residual(rest[0]))
        self.stages = nn.ModuleList(
            nn.Sequential(ConvBlock(inputs, outputs, stride=2), Residual(outputs))
            for inputs, outputs in zip(rest, rest[1:])
        )

    def forward(self, x: Tensor) -> list[Tensor]:
        """Map [B, 3, H, W] to three maps [B, C, H/s, W/s], s = 8, 16, 32."""
        x = self.stem(x)
        maps: list[Tensor] = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return maps


class Attention(nn.Module):
    """Multi-head attention, written out so that it exports to plain ONNX operators with a free batch axis."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attend from [B, Q, C] to [B, K, C]; return [B, Q, C]."""
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, self.size)).transpose(1, 2)
            for layer, x in ((self.query, queries), (self.key, keys), (self.value, values))
        )
        weights = torch.softmax(q @ k.transpose(-1, -2) * self.size**-0.5, dim=-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))
