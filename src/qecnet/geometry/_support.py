"""What the estimators share: input checks, centred coordinates, and a walk over queries with the points near them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from torch import Tensor

Array = NDArray[Any]

_QUERIES, _CELL = 64, 16  # measured: the products stay in cache, and few candidates are far from every query


class Centred(NamedTuple):
    """A cloud at radius 1 about its centroid: (N, 3) float64 points, and the centre and radius that they left."""

    points: Array
    centre: Array
    radius: float

    def of(self, positions: Tensor) -> Array:
        """Brings (M, 3) positions given in the cloud's own coordinates along."""
        return (to_array(positions) - self.centre) / self.radius


def centred(points: Tensor) -> Centred:
    """Zero mean and largest radius 1, so that one tolerance fits every scale; radius 1 where all points are equal."""
    array = to_array(points)
    centre = array[0] + (array - array[0]).mean(0)
    array = array - centre
    largest = float(np.abs(array).max())
    # Equal points differ from their own mean by rounding only.
    if largest <= 1e-15 * float(np.abs(centre).max()):
        return Centred(np.zeros_like(array), centre, 1.0)
    radius = largest * float(np.sqrt(np.square(array / largest).sum(1).max()))
    return Centred(array / radius, centre, radius)


def to_array(tensor: Tensor) -> Array:
    """A float64 array on the host: neighbour search runs there, whatever the device."""
    return tensor.detach().to("cpu", torch.float64).numpy()


def check_cloud(points: Tensor, what: str = "points") -> None:
    """Refuses anything but (N, 3) finite floating point values, N ≥ 1."""
    if points.ndim != 2 or points.shape[1] != 3 or len(points) == 0 or not points.is_floating_point():
        raise ValueError(
            f"{what} have the shape {tuple(points.shape)} and {points.dtype}; give one cloud of (N, 3) floats, N ≥ 1"
        )
    if not points.isfinite().all():
        bad = int((~points.isfinite().all(-1)).sum())
        raise ValueError(f"{what}: {bad} of {len(points)} are not finite; drop them first (PointCloud.clean does)")


def places(points: Tensor, at: Tensor | None) -> Tensor:
    """(M, 3) positions for `at`: indices (M,) into `points`, positions (M, 3) of their own, or None for all points."""
    if at is None:
        return points
    if at.is_floating_point():
        check_cloud(at, "positions in `at`")
        return at
    if at.ndim != 1 or at.dtype == torch.bool:
        raise ValueError(f"`at` has the shape {tuple(at.shape)} and {at.dtype}; give (M,) indices or (M, 3) positions")
    if len(at) and not 0 <= int(at.min()) <= int(at.max()) < len(points):
        raise ValueError(f"`at` has an index outside 0..{len(points) - 1}; the cloud has {len(points)} points")
    return points[at]


def near_blocks(points: Array, queries: Array, radius: float) -> Iterator[tuple[Array, Array]]:
    """Pairs (query rows, point rows): compact groups of queries, each with every point that one may have near it.

    Groups are runs of kd-tree leaves. All points within `radius` of a group's queries are in its point rows, with a
    few times as many others: a dense product over such a block is faster than a tree walk for each query.
    """
    tree = cKDTree(points, leafsize=_CELL, balanced_tree=False, compact_nodes=False)
    order = tree.indices
    starts = np.arange(0, len(points), _CELL)
    cells = np.append(order, np.full(-len(points) % _CELL, -1)).reshape(-1, _CELL)
    along = np.ascontiguousarray(points[order].T)
    low, high = np.minimum.reduceat(along, starts, axis=1), np.maximum.reduceat(along, starts, axis=1)
    rows = cKDTree(queries, leafsize=_CELL, balanced_tree=False, compact_nodes=False).indices
    for first in range(0, len(queries), _QUERIES):
        group = rows[first : first + _QUERIES]
        members = queries[group].T
        gap = np.maximum(low - members.max(1, keepdims=True), members.min(1, keepdims=True) - high)
        np.maximum(gap, 0, out=gap)
        gap *= gap
        near = cells[gap.sum(0) <= radius * radius].ravel()
        # Only the last cell is padded.
        yield group, near[near >= 0] if len(near) and near[-1] < 0 else near
