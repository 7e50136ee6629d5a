"""Corruptions of point clouds for robustness tests: noise, missing parts, a view from one side."""

from __future__ import annotations

import torch
from scipy.spatial import ConvexHull
from torch import Tensor

_SPHERE = 100.0  # radius of `single_view`'s sphere over the farthest distance: a larger one sees deeper into hollows


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


def single_view(points: Tensor, generator: torch.Generator, distance: float) -> Tensor:
    """Keep the points that are visible from a random direction, as a depth camera would see them.

    Hidden points are found as by Katz et al. 2007: after flipping all points over a large sphere around the camera, the
    visible ones lie on the convex hull. A cloud without volume hides nothing.

    Args:
        points: (N, 3).
        generator: Decides the direction.
        distance: Distance of the camera from the centroid, in radii of the cloud; above 1.

    Returns:
        (M, 3), in the original order.
    """
    if not distance > 1:
        raise ValueError(f"distance is {distance}; the camera has to be outside the cloud, at more than 1 radius")
    centred = (points - points.mean(0)).double()
    if torch.linalg.matrix_rank(centred) < 3:
        return points
    radius = centred.norm(dim=-1).amax()
    camera = distance * radius * _random_direction(points, generator).double()
    rays = centred - camera
    lengths = rays.norm(dim=-1, keepdim=True)
    flipped = rays + 2 * (_SPHERE * lengths.amax() - lengths) * rays / lengths
    with_camera = torch.cat([flipped, torch.zeros_like(camera)[None]])
    on_hull = torch.from_numpy(ConvexHull(with_camera.numpy(force=True)).vertices).long().to(points.device)
    return points[on_hull[on_hull < len(points)].sort().values]


def _random_direction(points: Tensor, generator: torch.Generator) -> Tensor:
    """A unit vector (3,), uniform over the sphere."""
    direction = torch.randn(3, generator=generator, dtype=torch.float64, device=generator.device)
    return torch.nn.functional.normalize(direction, dim=0).to(points)
