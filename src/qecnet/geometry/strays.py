"""Strays: points that stand alone, which a sensor saw where there is no surface."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from qecnet.geometry._support import Array, Centred, centre_cloud, check_cloud

_NEIGHBOUR = 4
_TIMES = 2.53  # its square is no whole number: on a grid there is no tie for rounding to break
_FEWEST = 2000  # of fewer, thin legs are points that stand alone
_MOST = 0.25
_SUSPECTS = 64  # of more, looking at each takes longer than at the whole cloud


def find_strays(points: Tensor) -> Tensor:
    """Find points in groups of up to four that are far from all others.

    Far is two and a half times the distance that points typically have from their 4th neighbour (the median of up to
    512 places all over the cloud). A thin leg, few points after each other, is no group of its own.

    None, where these would be more than a quarter of all: a cloud of such uneven density has no strays that could be
    told; and none among fewer than 2,000 points, of which a thin leg gets too few.

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

    Farthest points are chosen among strays before others; the few that they leave stand near the surface.
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
    """(N,) how many points are in each one's group, in which each is at most `far` from another; right where few are.

    Links to four neighbours are enough: a point with more of them is in a larger group anyway.
    """
    distances, others = cloud.tree.query(cloud.points, k=range(2, _NEIGHBOUR + 2), distance_upper_bound=far)
    near = distances <= far
    # SciPy 1.11 takes 32-bit indices only.
    links = np.nonzero(near)[0].astype(np.int32), others[near].astype(np.int32)
    count = len(cloud.points)
    _, group = connected_components(coo_array((np.ones(len(links[0])), links), (count, count)), directed=False)
    return np.asarray(np.bincount(group)[group])
