"""A small RF-DETR-layout detector: set prediction from proposals that two decoder layers refine.

Like RF-DETR it returns `dets` [B, Q, 4] (cx cy w h, 0..1) and `labels` [B, Q, C + 1], raw logits for a sigmoid; the
last slot is a background that no target ever selects.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from training.layers import Attention, Backbone, ConvBlock, Residual

WIDTH = 80


def inverse_sigmoid(x: Tensor) -> Tensor:
    """Return log(x / (1 - x)) with x kept within 1e-4 of its ends."""
    x = x.clamp(1e-4, 1 - 1e-4)
    return torch.log(x / (1 - x))


def sine_embedding(values: Tensor, width: int) -> Tensor:
    """Turn each of [..., K] values of 0..1 into width // K sines and cosines; return [..., width]."""
    count = width // values.shape[-1] // 2
    steps = torch.tensor([0.2 * math.pi * 150 ** (step / (count - 1)) for step in range(count)], device=values.device)
    angles = values.unsqueeze(-1) * steps
    return torch.cat([angles.sin(), angles.cos()], dim=-1).flatten(-2)


def perceptron(inputs: int, outputs: int, hidden: int = WIDTH) -> nn.Sequential:
    """Return two linear layers with a ReLU between them."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


class Predictor(nn.Module):
    """Class logits and a box, given as a correction of a reference box."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.labels = nn.Linear(WIDTH, classes + 1)
        self.boxes = perceptron(WIDTH, 4)
        nn.init.constant_(self.labels.bias, -math.log(99))
        nn.init.zeros_(self.boxes[-1].weight)
        nn.init.zeros_(self.boxes[-1].bias)

    def forward(self, x: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
        """Map [B, K, WIDTH] and boxes [B, K, 4] to boxes [B, K, 4] and logits [B, K, C + 1]."""
        boxes = torch.sigmoid(inverse_sigmoid(reference.float()) + self.boxes(x).float())
        return boxes, self.labels(x).float()


class EncoderLayer(nn.Module):
    """Self-attention over the cells of the map, then a feed-forward net; pre-normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.feed = Attention(WIDTH), perceptron(WIDTH, WIDTH, 128)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        """Keep the shape [B, K, WIDTH]."""
        y = self.norms[0](x)
        x = x + self.attention(y + places, y + places, y)
        return x + self.feed(self.norms[1](x))


class DecoderLayer(nn.Module):
    """Self-attention among queries, attention to the map, a feed-forward net; pre-normalised."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.among, self.across, self.feed = Attention(WIDTH), Attention(WIDTH), perceptron(WIDTH, WIDTH, 128)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(4))
        self.predictor = Predictor(classes)

    def forward(
        self, x: Tensor, reference: Tensor, places: Tensor, memory: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the queries [B, Q, WIDTH], their boxes and their logits."""
        keys, values = memory
        y = self.norms[0](x)
        x = x + self.among(y + places, y + places, y)
        x = x + self.across(self.norms[1](x) + places, keys, values)
        x = x + self.feed(self.norms[2](x))
        return (x, *self.predictor(self.norms[3](x), reference))


class RfDetrDetector(nn.Module):
    """Backbone to stride 16, one encoder layer, the best cells as queries, two decoder layers.

    In training mode the output is a list of (boxes, logits), of the proposals (one per cell) and of each decoder layer;
    in eval mode it is the last layer's pair.
    """

    def __init__(self, classes: int, side: int, queries: int = 30) -> None:
        super().__init__()
        self.queries, count = queries, side // 16
        low, middle, high = widths = (32, 48, 72)
        self.backbone = Backbone((16, 24, *widths))
        self.merge = nn.Sequential(ConvBlock(4 * low + middle + high, WIDTH, 1), Residual(WIDTH))
        self.encoder, self.norm = EncoderLayer(), nn.LayerNorm(WIDTH)
        self.proposal, self.places = Predictor(classes), perceptron(WIDTH, WIDTH)
        self.decoder = nn.ModuleList(DecoderLayer(classes) for _ in range(2))
        ys, xs = torch.meshgrid(*[(torch.arange(count) + 0.5) / count] * 2, indexing="ij")
        cells = torch.stack([xs.flatten(), ys.flatten()], dim=1)
        self.register_buffer("anchors", torch.cat([cells, torch.full_like(cells, 0.2)], dim=1)[None], persistent=False)
        self.register_buffer("cell_places", sine_embedding(cells, WIDTH)[None], persistent=False)

    def _memory(self, x: Tensor) -> Tensor:
        """Return the encoded cells [B, K, WIDTH]."""
        low, middle, high = self.backbone(x)
        # The finest map's 2x2 neighbours go into channels: nothing of the position is lost.
        stacked = [functional.pixel_unshuffle(low, 2), middle, functional.interpolate(high, scale_factor=2.0)]
        cells = self.merge(torch.cat(stacked, dim=1)).flatten(2).transpose(1, 2)
        return self.norm(self.encoder(cells, self.cell_places))

    def forward(self, x: Tensor) -> list[tuple[Tensor, Tensor]] | tuple[Tensor, Tensor]:
        """Detect in normalised [B, 3, side, side]."""
        memory = self._memory(x)
        proposals = self.proposal(memory, self.anchors)
        best = proposals[1][..., :-1].amax(dim=-1).topk(self.queries, dim=1).indices[..., None]
        queries = memory.gather(1, best.expand(-1, -1, WIDTH))
        reference = proposals[0].gather(1, best.expand(-1, -1, 4)).detach()
        results = [proposals]
        for layer in self.decoder:
            places = self.places(sine_embedding(reference, WIDTH))
            queries, boxes, logits = layer(queries, reference, places, (memory + self.cell_places, memory))
            results.append((boxes, logits))
            reference = boxes.detach()
        return results if self.training else results[-1]
