"""Sampling: points of a mesh or a cloud, farthest points of a cloud, a random subset."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from qecnet.compiled import is_compiled
from qecnet.geometry._compiled import farthest_compiled
from qecnet.geometry._support import Centred, centre_cloud, check_cloud
from qecnet.geometry.cloud import PointCloud
from qecnet.geometry.mesh import Mesh

MIN_POINTS = 9
"""Fewer points are no shape: a patch of the paper has nine."""


def sample_points(
    shape: Mesh | PointCloud, count: int, generator: torch.Generator, keep: float = 1.0, thinned: float = 1.0
) -> PointCloud:
    """Sample a mesh, or subsample a cloud that has more than `count` points.

    Args:
        shape: what to sample.
        count: number of points.
        generator: decides which.
        keep: the share of a cloud of at most `count` points that is kept.
        thinned: the share that is left of all these, of at least `MIN_POINTS`.

    Returns:
        The points with their normals; a cloud that keeps all of its points as it is.
    """
    if isinstance(shape, Mesh):
        return shape.sample(max(MIN_POINTS, round(thinned * count)), generator)
    most = count if len(shape) > count else keep * len(shape)
    kept = min(len(shape), max(MIN_POINTS, round(thinned * most)))
    return shape if kept == len(shape) else shape.select(random_points(shape.points, kept, generator))


def farthest_points(points: Tensor, count: int, start: int | None = None) -> Tensor:
    """Choose farthest points exactly: each next point is the one farthest from those already chosen.

    Ties go to the lower index: a rule that a rotation does not change (up to rounding).

    Args:
        points: (N, 3).
        count: how many to choose, at most N. Once every position is taken, repeated positions follow.
        start: index of the first; by default the point farthest from the centroid, so that a rotated cloud gives
            the same choice.

    Returns:
        (count,) int64 indices in the order of choice: the first n of them are the answer for n.
    """
    check_cloud(points)
    _check_count(count, len(points))
    if start is not None and not 0 <= start < len(points):
        raise ValueError(f"start is {start}; the cloud has the points 0..{len(points) - 1}")
    return choose_farthest(centre_cloud(points), count, points, start)


def choose_farthest(cloud: Centred, count: int, points: Tensor, start: int | None = None) -> Tensor:
    """`farthest_points` of points that have been centred; the choice is made in the precision of `points`."""
    array = cloud.points
    if start is None:
        start = int(np.square(array).sum(1).argmax())
    kind = np.float64 if points.dtype == torch.float64 else np.float32
    if is_compiled():
        return torch.from_numpy(farthest_compiled(cloud, kind, count, start)).to(points.device)
    axes = np.ascontiguousarray(array.T, dtype=kind)
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


def random_points(points: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Choose distinct points at random, every subset equally likely.

    Args:
        points: (N, 3).
        count: how many to choose, at most N.
        generator: makes the choice.

    Returns:
        (count,) int64 indices.
    """
    _check_count(count, len(points))
    return torch.randperm(len(points), generator=generator)[:count].to(points.device)


def _check_count(count: int, available: int) -> None:
    if not 1 <= count <= available:
        raise ValueError(f"{count} points were requested from a cloud of {available}; request 1 to {available}")
