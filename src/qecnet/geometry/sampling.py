"""Choose points: samples of a mesh or a cloud, farthest points, a random subset, and strays.

Strays are isolated points that a sensor measured where there is no surface.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from qecnet.compiled import is_compiled
from qecnet.geometry._compiled import farthest_compiled
from qecnet.geometry._support import Array, Centred, centre_cloud, check_cloud
from qecnet.geometry.cloud import PointCloud
from qecnet.geometry.mesh import Mesh

MIN_POINTS = 9
"""Fewer points are no shape: a patch of the paper has nine."""

_NEIGHBOUR = 4
_TIMES = 2.53  # its square is no whole number: on a grid there is no tie for rounding to break
_FEWEST = 2000  # with fewer, points on thin legs are isolated, too
_MOST = 0.25
_SUSPECTS = 64  # with more, checking each takes longer than checking the whole cloud


def sample_points(
    shape: Mesh | PointCloud, count: int, generator: torch.Generator, keep: float = 1.0, thinned: float = 1.0
) -> PointCloud:
    """Sample a mesh, or subsample a cloud that has more than `count` points.

    Args:
        shape: what to sample.
        count: number of points.
        generator: decides which.
        keep: the share that is kept of a cloud of at most `count` points.
        thinned: the share of these points that is returned, at least `MIN_POINTS` points.

    Returns:
        The points with their normals; a cloud that keeps all of its points as it is.
    """
    if isinstance(shape, Mesh):
        return shape.sample(max(MIN_POINTS, round(thinned * count)), generator)
    most = count if len(shape) > count else keep * len(shape)
    kept = min(len(shape), max(MIN_POINTS, round(thinned * most)))
    return shape if kept == len(shape) else shape.select(random_points(shape.points, kept, generator))


def farthest_points(points: Tensor, count: int) -> Tensor:
    """Choose farthest points exactly: each next point is the one farthest from those already chosen.

    The first is the point farthest from the centroid, and ties go to the lower index. Neither rule depends on rotation
    (up to rounding).

    Args:
        points: (N, 3).
        count: how many to choose, at most N. Once every position is taken, repeated positions follow.

    Returns:
        (count,) int64 indices in the order of choice: the first n of them are the result for n.
    """
    check_cloud(points)
    _check_count(count, len(points))
    return choose_farthest(centre_cloud(points), count, points)


def choose_farthest(cloud: Centred, count: int, points: Tensor) -> Tensor:
    """`farthest_points` of points that have been centred; the choice is made in the precision of `points`."""
    array = cloud.points
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
        # A point is never chosen twice, even if all that are left repeat a position.
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


def find_strays(points: Tensor) -> Tensor:
    """Find points in groups of up to four that are far from all others.

    Far is two and a half times the typical distance of a point from its 4th neighbour (the median of up to 512 points
    all over the cloud). The points of a thin leg are near one another, and so not such groups.

    There are none where these would be more than a quarter of all points, as strays cannot be recognised in a cloud of
    such uneven density; and none among fewer than 2,000 points, where a thin leg has too few.

    Args:
        points: (N, 3), one cloud, finite, positions that are not repeated (`PointCloud.clean`).

    Returns:
        (N,) bool.
    """
    check_cloud(points)
    none = torch.zeros(len(points), dtype=torch.bool, device=points.device)
    if len(points) < _FEWEST:
        return none
    cloud = centre_cloud(points)
    alone = torch.from_numpy(_group_sizes(cloud, _far(cloud)) <= _NEIGHBOUR).to(points.device)
    return none if alone.sum() > _MOST * len(points) else alone


def may_have_strays(cloud: Centred, queries: Array) -> bool:
    """Whether any of a cloud's farthest points, (M, 3) centred, seems to be a stray.

    Strays are chosen as farthest points before others; the few that are not are near the surface.
    """
    if len(cloud.points) < _FEWEST:
        return False
    far = _far(cloud)
    suspects = queries[cloud.reach(queries, _NEIGHBOUR) > far]
    return len(suspects) > _SUSPECTS or any(_stands_alone(cloud, place, far) for place in suspects)


def _stands_alone(cloud: Centred, place: Array, far: float) -> bool:
    """Whether a point of the cloud is in a group of up to four, in which each is at most `far` from another."""
    group: set[int] = set()
    grown = set(cloud.tree.query_ball_point(place, far))
    while group != grown and len(grown) <= _NEIGHBOUR:
        group = grown
        grown = group.union(*cloud.tree.query_ball_point(cloud.points[[*group]], far))
    return len(grown) <= _NEIGHBOUR


def _far(cloud: Centred) -> float:
    return _TIMES * cloud.median_reach(_NEIGHBOUR)


def _group_sizes(cloud: Centred, far: float) -> Array:
    """(N,) number of points in each one's group, in which each is at most `far` from another; exact for small groups.

    Links to four neighbours are enough: a point with more of them is in a larger group anyway.
    """
    distances, others = cloud.tree.query(cloud.points, k=range(2, _NEIGHBOUR + 2), distance_upper_bound=far)
    near = distances <= far
    # SciPy 1.11 takes 32-bit indices only.
    links = np.nonzero(near)[0].astype(np.int32), others[near].astype(np.int32)
    count = len(cloud.points)
    _, group = connected_components(coo_array((np.ones(len(links[0])), links), (count, count)), directed=False)
    return np.asarray(np.bincount(group)[group])
