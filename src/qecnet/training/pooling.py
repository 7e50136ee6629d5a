"""A new pooling graph for each cloud of a batch: `qecnet.geometry.patches` for many clouds at once.

The paper draws another graph in each epoch. Here farthest point sampling starts at a random frame; all clouds of a
batch take a step together, which costs a tenth of one cloud after the other.
"""

from __future__ import annotations

import torch
from torch import Tensor

from qecnet.geometry import Patches


def pool(points: Tensor, valid: Tensor, starts: Tensor, count: int, size: int) -> Patches:
    """points (B, N, 3), valid (B, N), the first centres (B,) → centres (B, P), neighbours (B, P, K), mask (B, P, K).

    As `patches` gives them for each cloud: only valid frames, neighbours nearest first, index 0 where one is missing.
    """
    clouds = torch.arange(len(points))
    nearest = torch.where(valid, torch.inf, -1.0)
    centres = torch.empty(len(points), count, dtype=torch.int64)
    there = torch.empty(len(points), count, dtype=torch.bool)
    axes = points.permute(2, 0, 1).contiguous()
    chosen = starts
    for i in range(count):
        centres[:, i] = chosen
        # A frame that was chosen, like one that is invalid, is at −1 from then on: none is left when all are.
        there[:, i] = nearest[clouds, chosen] >= 0
        nearest[clouds, chosen] = -1
        away = [axis - axis[clouds, chosen][:, None] for axis in axes]
        distance = (away[0] * away[0]).addcmul_(away[1], away[1]).addcmul_(away[2], away[2])
        torch.minimum(nearest, distance, out=nearest)
        chosen = nearest.argmax(-1)
    centres.masked_fill_(~there, 0)
    distance = torch.cdist(points[clouds[:, None], centres], points, compute_mode="donot_use_mm_for_euclid_dist")
    distance.masked_fill_(~valid[:, None], torch.inf)
    found = distance.topk(size, largest=False)
    mask = there[..., None] & found.values.isfinite()
    return Patches(centres, found.indices.masked_fill_(~mask, 0), mask)
