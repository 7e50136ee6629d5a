"""A new pooling graph for each cloud of a batch: the paper draws another one in each epoch.

Farthest point sampling starts at a given frame instead of `qecnet.geometry.patches`' fixed one. One cloud after the
other takes about a millisecond each, behind the network's work; all clouds in step, as tensors, were not faster.
"""

from __future__ import annotations

import torch
from torch import Tensor

from qecnet.geometry import Patches, farthest_points, nearest_neighbours
from qecnet.nn.fused import is_fused, pool_fused


def pool(points: Tensor, valid: Tensor, starts: Tensor, count: int, size: int) -> Patches:
    """points (B, N, 3), valid (B, N), the first centres (B,) → centres (B, P), neighbours (B, P, K), mask (B, P, K).

    As `patches` gives them for each cloud: only valid frames, neighbours nearest first, index 0 where one is missing.
    A cloud with no valid frame has no patches, wherever it starts.
    """
    if is_fused(points):
        return Patches(*pool_fused(points, valid, starts, count, size))
    centres = torch.zeros(len(points), count, dtype=torch.int64)
    neighbours = torch.zeros(len(points), count, size, dtype=torch.int64)
    mask = torch.zeros(len(points), count, size, dtype=torch.bool)
    for cloud, usable in enumerate(v.nonzero()[:, 0] for v in valid):
        if len(usable):
            there = points[cloud, usable]
            first = int(torch.searchsorted(usable, starts[cloud]))
            chosen = farthest_points(there, min(count, len(usable)), first)
            found, present = nearest_neighbours(there, there[chosen], size)
            centres[cloud, : len(chosen)] = usable[chosen]
            neighbours[cloud, : len(chosen)] = torch.where(present, usable[found], 0)
            mask[cloud, : len(chosen)] = present
    return Patches(centres, neighbours, mask)
