"""Patches: which frames the first layer's capsules read (paper, Fig. 3 and "Implementation details")."""

import torch
from torch import Tensor

from ..algebra import grad_where
from .capsules import Pooling
from .fused import is_fused, pool_fused
from .reading import distances


def choose_patches(
    positions: Tensor, valid: Tensor, count: int, size: int, start: float | Tensor | None = None
) -> Pooling:
    """Pool frames into patches: `count` centres by farthest point sampling, and the `size` nearest around each.

    Only valid frames are chosen, as centres and as neighbours; where there are too few, the rest is masked. Ties go to
    the lower index.

    Args:
        positions: (clouds, N, 3); invalid ones may have any value.
        valid: (clouds, N) bool.
        count, size: of the patches; the paper's first layer has 64 of 9.
        start: where sampling starts, as a share (0 to below 1) of the valid points; by default at the point farthest
            from their centroid.

    Returns:
        centres (clouds, count, 3), neighbours (clouds, count, size), nearest first, the centre itself among them.
    """
    with grad_where(False):
        points = _centred(positions, valid)
        if start is None:
            first = torch.where(valid, points.square().sum(-1), -1.0).argmax(1)
        else:
            number = valid.cumsum(1)
            wanted = (start * number[:, -1:]).long() + 1
            first = (valid & (number == wanted)).to(torch.uint8).argmax(1)
        if is_fused(positions):
            chosen, neighbours, present = pool_fused(positions, valid, first, count, size)
            return Pooling.at(positions, chosen, neighbours, present)
        chosen = _farthest(points.to(positions.dtype), valid, first, count)
        # With fewer valid points than patches, sampling repeats points.
        there = torch.arange(count, device=valid.device) < valid.sum(1, keepdim=True)
        chosen = torch.where(there, chosen, 0)
        centres = points.gather(1, chosen[..., None].expand(*chosen.shape, 3))
        far = torch.where(valid[:, None], distances(centres, points), torch.inf)
        found, neighbours = far.topk(size, largest=False)
        present = (found < torch.inf) & there[..., None]
        return Pooling.at(positions, chosen, torch.where(present, neighbours, 0), present)


def _centred(positions: Tensor, valid: Tensor) -> Tensor:
    """The valid points about their own centroid at radius 1, in float64: rounding is the same at any position."""
    points = torch.where(valid[..., None], positions, 0.0).double()
    points = points - points.sum(1, keepdim=True) / valid.sum(1).clamp_min(1)[:, None, None]
    points = torch.where(valid[..., None], points, 0.0)
    radius = points.square().sum(-1).amax(1).sqrt()[:, None, None]
    return points / torch.where(radius > 0, radius, 1.0)


def _farthest(points: Tensor, valid: Tensor, first: Tensor, count: int) -> Tensor:
    """Farthest point sampling, all clouds in step: (clouds, N, 3), (clouds, N), (clouds) → (clouds, count)."""
    axes = points.mT.contiguous()
    nearest = torch.where(valid, torch.inf, -torch.inf).to(points.dtype)
    taken = torch.full_like(first, -1)[:, None].to(points.dtype)
    chosen = [first]
    for _ in range(count - 1):
        last = chosen[-1][:, None]
        # A point is never chosen twice, even if all that are left repeat a position.
        nearest = nearest.scatter(1, last, taken)
        offsets = axes - axes.gather(2, last[:, None].expand(-1, 3, 1))
        dx, dy, dz = (offsets * offsets).unbind(1)
        nearest = torch.minimum(nearest, dx + dy + dz)
        chosen.append(nearest.argmax(1))
    return torch.stack(chosen, 1)
