"""Patches: which frames the first layer's capsules look at (paper, Fig. 3 and "Implementation details")."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from qecnet.geometry._support import check_cloud
from qecnet.geometry.neighbours import nearest_neighbours
from qecnet.geometry.sampling import farthest_points


class Patches(NamedTuple):
    """Indices into the frames: centres (P,), neighbours (P, K), nearest first, and mask (P, K) of what is there.

    A patch's first neighbour is its centre. What is missing has index 0; a missing patch is masked throughout.
    """

    centres: Tensor
    neighbours: Tensor
    mask: Tensor


def patches(points: Tensor, valid: Tensor | None = None, count: int = 64, size: int = 9) -> Patches:
    """Pools frames into patches: `count` centres by farthest point sampling, `size` nearest around each.

    Only valid frames are chosen, as centres and as neighbours; where there are fewer of them than asked for, the rest
    is masked.

    Args:
        points: (N, 3) positions of the frames, N ≥ `size`.
        valid: (N,) which of them have a frame; by default all.
        count, size: the paper's first layer has 64 patches of 9.
    """
    check_cloud(points)
    if count < 1 or size < 1:
        raise ValueError(f"{count} patches of {size} were asked for; ask for at least 1 of each")
    if len(points) < size:
        raise ValueError(f"cloud has {len(points)} points; a patch needs at least {size}")
    centres = torch.zeros(count, dtype=torch.int64, device=points.device)
    neighbours = torch.zeros(count, size, dtype=torch.int64, device=points.device)
    mask = torch.zeros(count, size, dtype=torch.bool, device=points.device)
    usable = torch.arange(len(points), device=points.device) if valid is None else valid.nonzero().squeeze(-1)
    if len(usable):
        chosen = farthest_points(points[usable], min(count, len(usable)))
        found, there = nearest_neighbours(points[usable], points[usable[chosen]], size)
        centres[: len(chosen)] = usable[chosen]
        neighbours[: len(chosen)] = torch.where(there, usable[found], 0)
        mask[: len(chosen)] = there
    return Patches(centres, neighbours, mask)
