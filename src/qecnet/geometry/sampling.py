"""Choosing points of a cloud: farthest points (the paper's pooling), points a distance apart, a random subset.

Each returns indices into the cloud. Ties go to the lower index: a rule that a rotation does not change (up to
rounding), though a different order of the points does.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from qecnet.geometry._support import centred, check_cloud


def farthest_points(points: Tensor, count: int, start: int | None = None) -> Tensor:
    """Exact farthest point sampling: each next point is the one farthest from those already chosen.

    Args:
        points: (N, 3).
        count: how many to choose, at most N. Once every position is taken, repeated positions follow.
        start: index of the first; by default the point farthest from the centroid, so that a turned cloud gives the
            same choice.

    Returns:
        (count,) int64 indices in the order of choice: the first n of them are the answer for n.
    """
    check_cloud(points)
    _check_count(count, len(points))
    array = centred(points).points
    if start is None:
        start = int(np.square(array).sum(1).argmax())
    elif not 0 <= start < len(points):
        raise ValueError(f"start is {start}; the cloud has the points 0..{len(points) - 1}")
    axes = np.ascontiguousarray(array.T, dtype=_working_dtype(points))
    offsets, nearest = np.empty_like(axes), np.full(len(array), np.inf, axes.dtype)
    distance = offsets[0]
    chosen = np.empty(count, np.int64)
    for i in range(count):
        chosen[i] = start
        # A chosen point is never taken again, even where all that is left repeats a position.
        nearest[start] = -1
        np.subtract(axes, axes[:, start, None], out=offsets)
        np.multiply(offsets, offsets, out=offsets)
        distance += offsets[1]
        distance += offsets[2]
        np.minimum(nearest, distance, out=nearest)
        start = int(nearest.argmax())
    return torch.from_numpy(chosen).to(points.device)


def spaced_points(points: Tensor, spacing: float, generator: torch.Generator | None = None) -> Tensor:
    """Uniform threshold sampling (Birdal & Ilic 2017; paper, 5.1): greedily keeps points at least `spacing` apart.

    Points are visited from the one farthest from the centroid inwards, or in an order drawn from `generator`. Every
    point of the cloud is then closer than `spacing` to a kept one.

    Args:
        points: (N, 3).
        spacing: in the cloud's own units.

    Returns:
        (M,) int64 indices in the order in which they were kept.
    """
    check_cloud(points)
    if not spacing > 0:
        raise ValueError(f"spacing is {spacing}; points are kept apart by a distance above 0")
    cloud = centred(points)
    if generator is None:
        order = np.argsort(-np.square(cloud.points).sum(1), kind="stable")
    else:
        order = torch.randperm(len(points), generator=generator).numpy()
    # Strictly closer points go; one exactly `spacing` away stays.
    reach = np.nextafter(spacing / cloud.radius, 0)
    tree = cKDTree(cloud.points)
    free = np.ones(len(points), bool)
    kept = []
    for i in order:
        if free[i]:
            kept.append(int(i))
            free[tree.query_ball_point(cloud.points[i], reach)] = False
    return torch.tensor(kept, device=points.device)


def random_points(points: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """(count,) int64 indices of distinct points of (N, 3), every subset equally likely."""
    _check_count(count, len(points))
    return torch.randperm(len(points), generator=generator)[:count].to(points.device)


def _check_count(count: int, available: int) -> None:
    if not 1 <= count <= available:
        raise ValueError(f"{count} points were asked of a cloud of {available}; ask for 1 to {available}")


def _working_dtype(points: Tensor) -> type[np.floating]:
    return np.float64 if points.dtype == torch.float64 else np.float32
