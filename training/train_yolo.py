"""Train the YOLO-layout test detector and export it.

    python -m training.train_yolo [--images N] [--seconds S] [--out model.onnx]

Letterboxed 320x320 RGB / 255; output `output0` [B, 4 + 4, 2100].
"""

from __future__ import annotations

import torch
from torch import Tensor

from training.batches import draw_parts_set, parts_batch, shuffled
from training.evaluate import YOLO_SIDE
from training.fit import Schedule, arguments, export, fit
from training.scenes import PART_NAMES
from training.yolo import YoloDetector, loss


def main() -> None:
    """Draw, learn, export."""
    options = arguments(__doc__.splitlines()[0], "parts_yolo")
    parts = draw_parts_set(options.images, YOLO_SIDE, keep_aspect=True, device=options.device)
    network = YoloDetector(len(PART_NAMES), YOLO_SIDE).to(options.device, memory_format=torch.channels_last)

    def losses(indices: Tensor) -> Tensor:
        images, boxes, class_ids = parts_batch(parts, indices)
        with torch.autocast(options.device.type, torch.bfloat16, enabled=options.device.type == "cuda"):
            return loss(network, images.contiguous(memory_format=torch.channels_last), boxes, class_ids)

    batches = shuffled(options.images, options.batch, 1_000_000, options.device)
    best = fit(network, losses, batches, Schedule(options.seconds, rate=3e-3, clip=10.0))
    export(best, options.out, YOLO_SIDE, ("images", ["output0"]))


if __name__ == "__main__":
    main()
