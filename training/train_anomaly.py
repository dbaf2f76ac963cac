"""Train the anomaly test model and export it.

    python -m training.train_anomaly [--images N] [--seconds S] [--out model.onnx]

Stretched 256x256 RGB with ImageNet normalisation; outputs `class_probs` [B, 2], `anomaly_map` [B, 1, 256, 256],
`pred_score` [B, 1] and `pixel_logits` [B, 3, 256, 256].
"""

from __future__ import annotations

import torch
from torch import Tensor

from training.anomaly import AnomalyNetwork, loss
from training.batches import draw_surface_set, jitter, normalized, shuffled
from training.evaluate import ANOMALY_SIDE
from training.fit import Schedule, arguments, export, fit
from training.scenes import PIXEL_NAMES


def main() -> None:
    """Draw, learn, export."""
    options = arguments(__doc__.splitlines()[0], "parts_anomaly")
    images, classes = draw_surface_set(options.images, ANOMALY_SIDE, options.device)
    network = AnomalyNetwork(len(PIXEL_NAMES)).to(options.device, memory_format=torch.channels_last)

    def losses(indices: Tensor) -> Tensor:
        inputs, truth = normalized(jitter(images[indices])), classes[indices].long()
        for axis in (1, 2):
            if torch.rand(()) < 0.5:
                inputs, truth = inputs.flip(axis + 1), truth.flip(axis)
        with torch.autocast(options.device.type, torch.bfloat16, enabled=options.device.type == "cuda"):
            return loss(network, inputs.contiguous(memory_format=torch.channels_last), truth)

    batches = shuffled(options.images, options.batch, 1_000_000, options.device)
    best = fit(network, losses, batches, Schedule(options.seconds, rate=2e-3, clip=5.0))
    export(best, options.out, ANOMALY_SIDE, ("input", ["class_probs", "anomaly_map", "pred_score", "pixel_logits"]))


if __name__ == "__main__":
    main()
