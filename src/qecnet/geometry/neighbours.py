"""Which points are near: the k nearest, and all within a radius, with masks for what is missing."""

from __future__ import annotations

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from qecnet.geometry._support import Array, centred, check_cloud, search_tree


def nearest_neighbours(points: Tensor, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` nearest of (N, 3) points for each of (M, 3) queries, nearest first.

    A query that is itself a point of the cloud has itself (or its repeat) as first neighbour.

    Returns:
        indices (M, count) int64 and mask (M, count); where the cloud has fewer points, mask is False and index 0.
    """
    check_cloud(points)
    check_cloud(queries, "queries")
    if count < 1:
        raise ValueError(f"{count} neighbours were asked for; ask for at least 1")
    cloud = centred(points)
    reached = min(count, len(points))
    _, found = cloud.tree.query(cloud.of(queries), k=np.arange(1, reached + 1))
    indices = torch.zeros(len(queries), count, dtype=torch.int64)
    indices[:, :reached] = torch.from_numpy(found)
    mask = (torch.arange(count) < reached).expand(len(queries), count).clone()
    return indices.to(points.device), mask.to(points.device)


def radius_neighbours(points: Tensor, queries: Tensor, radius: float) -> tuple[Tensor, Tensor]:
    """All of (N, 3) points at a distance of at most `radius` from each of (M, 3) queries, in ascending order.

    Returns:
        indices (M, K) int64 and mask (M, K), with K the largest number found; what is missing has index 0.
    """
    check_cloud(points)
    check_cloud(queries, "queries")
    check_radius(radius)
    cloud = centred(points)
    rows, near, _ = pairs_within(cloud.tree, cloud.of(queries), radius / cloud.radius)
    lengths = np.bincount(rows, minlength=len(queries))
    mask = np.arange(lengths.max()) < lengths[:, None]
    indices = np.zeros(mask.shape, np.int64)
    indices[mask] = near[np.lexsort((near, rows))]
    return torch.from_numpy(indices).to(points.device), torch.from_numpy(mask).to(points.device)


def check_radius(radius: float) -> None:
    """Refuses a radius that is not a positive number."""
    if not 0 < radius < float("inf"):
        raise ValueError(f"radius is {radius}; neighbours are searched within a finite distance above 0")


def pairs_within(tree: cKDTree, queries: Array, radius: float) -> tuple[Array, Array, Array]:
    """Query row, point index and distance (P,) of every pair at most `radius` apart, in no promised order."""
    pairs = search_tree(queries).sparse_distance_matrix(tree, radius, output_type="ndarray")
    return pairs["i"], pairs["j"], pairs["v"]
