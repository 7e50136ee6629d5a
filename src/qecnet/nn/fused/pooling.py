"""Pooling graphs for a batch of clouds in one operator: pooling.cpp."""

import torch
from torch import Tensor

from ...compiled import call


def pool_fused(points: Tensor, valid: Tensor, starts: Tensor, count: int, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Patches around farthest points, and their nearest neighbours, among the valid points of each cloud.

    Args:
        points: (B, N, 3) float32 on the CPU.
        valid: (B, N) bool.
        starts: (B,) int64, a valid point of each, the first centre.
        count: patches P of a cloud.
        size: neighbours K of a patch.

    Returns:
        Centres (B, P), neighbours (B, P, K), nearest first, and mask (B, P, K); index 0 where one is missing.
    """
    clouds, total = valid.shape
    centres = torch.empty(clouds, count, dtype=torch.int64)
    neighbours = torch.empty(clouds, count, size, dtype=torch.int64)
    mask = torch.empty(clouds, count, size, dtype=torch.bool)
    given = (x.contiguous() for x in (points, valid, starts))
    call("pool_clouds", clouds, total, count, size, *given, centres, neighbours, mask)
    return centres, neighbours, mask
