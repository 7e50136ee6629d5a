"""Which points are near: the k nearest, and all within a radius, with masks for what is missing."""

from __future__ import annotations

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from qecnet.geometry._support import Array, centred, check_cloud, near_blocks


def nearest_neighbours(points: Tensor, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` nearest of (N, 3) points for each of (M, 3) queries, nearest first.

    A query that is itself a point of the cloud has itself as first neighbour.

    Returns:
        indices (M, count) int64 and mask (M, count); where the cloud has fewer points, mask is False and index 0.
    """
    check_cloud(points)
    check_cloud(queries, "queries")
    if count < 1:
        raise ValueError(f"{count} neighbours were asked for; ask for at least 1")
    cloud = centred(points)
    reached = min(count, len(points))
    _, found = cKDTree(cloud.points).query(cloud.of(queries), k=np.arange(1, reached + 1))
    indices = torch.zeros(len(queries), count, dtype=torch.int64)
    indices[:, :reached] = torch.from_numpy(found)
    mask = (torch.arange(count) < reached).expand(len(queries), count)
    return indices.to(points.device), mask.to(points.device)


def radius_neighbours(points: Tensor, queries: Tensor, radius: float) -> tuple[Tensor, Tensor]:
    """All of (N, 3) points at a distance of at most `radius` from each of (M, 3) queries, in no promised order.

    Returns:
        indices (M, K) int64 and mask (M, K), with K the largest number found; what is missing has index 0.
    """
    check_cloud(points)
    check_cloud(queries, "queries")
    check_radius(radius)
    cloud = centred(points)
    indices, mask = within(cloud.points, cloud.of(queries), radius / cloud.radius)
    return torch.from_numpy(indices).to(points.device), torch.from_numpy(mask).to(points.device)


def check_radius(radius: float) -> None:
    """Refuses a radius that is not a positive number."""
    if not 0 < radius < float("inf"):
        raise ValueError(f"radius is {radius}; neighbours are searched within a finite distance above 0")


def within(points: Array, queries: Array, radius: float) -> tuple[Array, Array]:
    """`radius_neighbours` on centred float64 arrays: indices (M, K) and mask (M, K)."""
    near_rows, near_points = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    limit = radius * radius
    for group, candidates in near_blocks(points, queries, radius):
        members, others = queries[group], points[candidates]
        squares = np.square(members).sum(1)[:, None] + np.square(others).sum(1) - 2 * (members @ others.T)
        # The product rounds in the last digits of the coordinates: it proposes, the differences below decide.
        row, column = np.nonzero(squares <= limit + 1e-12)
        row, column = group[row], candidates[column]
        inside = np.square(queries[row] - points[column]).sum(1) <= limit
        near_rows.append(row[inside])
        near_points.append(column[inside])
    return _padded(np.concatenate(near_rows), np.concatenate(near_points), len(queries))


def _padded(rows: Array, values: Array, count: int) -> tuple[Array, Array]:
    """Lists of values by row, each row's together, as (count, longest) values and mask."""
    lengths = np.bincount(rows, minlength=count)
    mask = np.arange(max(1, lengths.max(initial=0))) < lengths[:, None]
    indices = np.zeros(mask.shape, np.int64)
    # A stable sort keeps the rows' own order and costs little on runs that are already together.
    indices[mask] = values[np.argsort(rows, kind="stable")]
    return indices, mask
