"""Train the RF-DETR-layout test detector and export it.

    python -m training.train_rf_detr [--images N] [--seconds S] [--out model.onnx]

Stretched 256x256 RGB with ImageNet normalisation; outputs `dets` [B, 30, 4] and `labels` [B, 30, 4 + 1].
"""

from __future__ import annotations

import torch
from torch import Tensor

from training.batches import draw_parts_set, normalized, parts_batch, shuffled
from training.boxes import to_centres
from training.evaluate import RF_DETR_SIDE
from training.fit import Schedule, arguments, export, fit
from training.matching import set_loss
from training.rf_detr import RfDetrDetector
from training.scenes import PART_NAMES


def main() -> None:
    """Draw, learn, export."""
    options = arguments(__doc__.splitlines()[0], "parts_rf_detr")
    parts = draw_parts_set(options.images, RF_DETR_SIDE, keep_aspect=False, device=options.device)
    network = RfDetrDetector(len(PART_NAMES), RF_DETR_SIDE).to(options.device, memory_format=torch.channels_last)

    def losses(indices: Tensor) -> Tensor:
        images, boxes, class_ids = parts_batch(parts, indices)
        inputs = normalized(images).contiguous(memory_format=torch.channels_last)
        with torch.autocast(options.device.type, torch.bfloat16, enabled=options.device.type == "cuda"):
            layers = network(inputs)
        truth = to_centres(boxes) / RF_DETR_SIDE
        return torch.stack([set_loss(*layer, truth, class_ids) for layer in layers]).sum()

    batches = shuffled(options.images, options.batch, 1_000_000, options.device)
    best = fit(network, losses, batches, Schedule(options.seconds, rate=1e-3, clip=1.0))
    export(best, options.out, RF_DETR_SIDE, ("input", ["dets", "labels"]))


if __name__ == "__main__":
    main()
