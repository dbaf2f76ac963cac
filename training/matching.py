"""The loss of set prediction: Hungarian matching, focal class loss, L1 and GIoU (DETR, Carion et al., 2020)."""

from __future__ import annotations

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn import functional

from training.boxes import giou, to_corners

CLASS_WEIGHT, L1_WEIGHT, GIOU_WEIGHT = 2.0, 5.0, 2.0
ALPHA, GAMMA = 0.25, 2.0


@torch.no_grad()
def match(boxes: Tensor, logits: Tensor, truth: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the matched (image, query, true row) indices, three int64 [n].

    Args:
        boxes: Predicted cx cy w h [B, Q, 4], 0..1.
        logits: Predicted class logits [B, Q, C + 1].
        truth: True cx cy w h [B, M, 4], 0..1.
        labels: True class ids [B, M]; -1 in unused rows, which come last.
    """
    scores = logits.sigmoid().clamp(1e-6, 1 - 1e-6)
    gain = ALPHA * (1 - scores).pow(GAMMA) * -scores.log() - (1 - ALPHA) * scores.pow(GAMMA) * -(1 - scores).log()
    index = labels.clamp(min=0)[:, None].expand(-1, scores.shape[1], -1)
    distance = (boxes[:, :, None] - truth[:, None]).abs().sum(dim=-1)
    overlap = giou(to_corners(boxes)[:, :, None], to_corners(truth)[:, None])
    cost = (CLASS_WEIGHT * gain.gather(2, index) + L1_WEIGHT * distance - GIOU_WEIGHT * overlap).cpu().numpy()
    counts = (labels >= 0).sum(dim=1).tolist()
    pairs = [linear_sum_assignment(table[:, :count]) for table, count in zip(cost, counts)]
    images = torch.cat([torch.full((len(rows),), image) for image, (rows, _) in enumerate(pairs)])
    queries, rows = (torch.cat([torch.as_tensor(pair[side]) for pair in pairs]) for side in (0, 1))
    return images.to(boxes.device), queries.to(boxes.device), rows.to(boxes.device)


def set_loss(boxes: Tensor, logits: Tensor, truth: Tensor, labels: Tensor) -> Tensor:
    """Return the loss of one layer's predictions; arguments as in `match`."""
    images, queries, rows = match(boxes, logits, truth, labels)
    count = max(len(images), 1)
    goals = torch.zeros_like(logits)
    goals[images, queries, labels[images, rows]] = 1
    entropy = functional.binary_cross_entropy_with_logits(logits, goals, reduction="none")
    miss = (logits.sigmoid() - goals).abs().pow(GAMMA)
    class_loss = (entropy * miss * (ALPHA * goals + (1 - ALPHA) * (1 - goals))).sum() / count
    found, wanted = boxes[images, queries], truth[images, rows]
    distance = (found - wanted).abs().sum() / count
    overlap = (1 - giou(to_corners(found), to_corners(wanted))).sum() / count
    return CLASS_WEIGHT * class_loss + L1_WEIGHT * distance + GIOU_WEIGHT * overlap
