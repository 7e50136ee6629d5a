"""Corruptions of point clouds for robustness tests: noise, missing parts."""

from __future__ import annotations

import torch
from torch import Tensor


def jitter(points: Tensor, generator: torch.Generator, deviation: float, limit: float) -> Tensor:
    """Add normal noise to each coordinate.

    Args:
        points: (..., N, 3).
        generator: Source of the noise.
        deviation: Standard deviation, in the points' own units.
        limit: The noise is clipped to ± this.

    Returns:
        (..., N, 3).
    """
    noise = torch.randn(points.shape, generator=generator, dtype=points.dtype, device=generator.device)
    return points + (deviation * noise).clamp(-limit, limit).to(points.device)


def crop(points: Tensor, generator: torch.Generator, share: float) -> Tensor:
    """Remove the points beyond a plane with a random normal.

    Args:
        points: (N, 3).
        generator: Decides the normal.
        share: Share of the points to remove; at least one point stays.

    Returns:
        (M, 3), in the original order.
    """
    if not 0 <= share < 1:
        raise ValueError(f"share is {share}; the share to remove has to be at least 0 and below 1")
    depth = points @ _random_direction(points, generator)
    kept = max(1, len(points) - round(share * len(points)))
    return points[depth.argsort(stable=True)[:kept].sort().values]


def _random_direction(points: Tensor, generator: torch.Generator) -> Tensor:
    """A unit vector (3,), uniform over the sphere."""
    direction = torch.randn(3, generator=generator, dtype=torch.float64, device=generator.device)
    return torch.nn.functional.normalize(direction, dim=0).to(points)
