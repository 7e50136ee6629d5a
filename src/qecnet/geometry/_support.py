"""What the estimators share: input checks, and a cloud at radius 1 about its centroid with its search tree."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from torch import Tensor

Array = NDArray[Any]

LEAF = 16
FAR = 1e15  # farther than any point, with squares that float32 can represent
_PROBES = 512

LEVEL = 3e-5
"""Heights closer than this share of the support's radius are equal: float32's rounding of coordinates stays below."""


@dataclass(frozen=True)
class Centred:
    """A cloud at radius 1 about its centroid, apart from outliers, so that one tolerance fits every scale.

    Attributes:
        points: (N, 3) float64.
        centre, radius: what was subtracted and divided by; radius 1 where all points are equal.
        rounding: the error of a point that the precision of the given coordinates allows.
    """

    points: Array
    centre: Array
    radius: float
    rounding: float
    _cells: dict[type[np.floating], tuple[Array, Array]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def of(self, positions: Tensor) -> Array:
        """Convert (M, 3) positions from the cloud's own coordinates."""
        return (to_array(positions) - self.centre) / self.radius

    @cached_property
    def tree(self) -> cKDTree:
        """Find neighbours among `points`."""
        return search_tree(self.points)

    def cells(self, kind: type[np.floating]) -> tuple[Array, Array]:
        """Group points that are near each other.

        Args:
            kind: precision of the points.

        Returns:
            Points (3, C, `LEAF`), padded with points at `FAR`; and indices (C · LEAF,) int64 into `points`, −1 for
            padding.
        """
        if kind not in self._cells:
            missing = -len(self.points) % LEAF
            ordered = np.clip(self.points[self.tree.indices].T, -FAR, FAR).astype(kind)
            filled = np.concatenate([ordered, np.full((3, missing), FAR, kind)], axis=1)
            index = np.concatenate([self.tree.indices, np.full(missing, -1)]).astype(np.int64)
            self._cells[kind] = np.ascontiguousarray(filled).reshape(3, -1, LEAF), index
        return self._cells[kind]

    def median_reach(self, neighbour: int) -> float:
        """Median distance to the neighbour of that rank; 0 for clouds too small to have one.

        Of up to 512 points evenly spread over the distances from the centroid, a choice that does not depend on
        rotation or on the order of the points.
        """
        points = self.points
        if len(points) <= neighbour:
            return 0.0
        by_distance = np.argsort(np.square(points).sum(1), kind="stable")
        probes = by_distance[np.linspace(0, len(points) - 1, min(len(points), _PROBES)).astype(np.int64)]
        return float(np.median(self.reach(points[probes], neighbour)))

    def reach(self, queries: Array, neighbour: int) -> Array:
        """(M,) distances of centred queries (M, 3), points of the cloud, to the neighbour of that rank."""
        distances, _ = self.tree.query(queries, k=[neighbour + 1])
        return np.asarray(distances[:, 0])


def search_tree(points: Array) -> cKDTree:
    """A kd-tree split in the middle of its boxes: built in half the time of a balanced one, and as fast to search."""
    return cKDTree(points, leafsize=LEAF, balanced_tree=False, compact_nodes=False)


def centre_cloud(points: Tensor) -> Centred:
    """Centre (N, 3) points and divide them by the largest radius, without outliers."""
    array = to_array(points)
    centre = array[0] + (array - array[0]).mean(0)
    array = array - centre
    largest = float(np.abs(array).max())
    # Equal points differ from their own mean by rounding only.
    if largest <= 1e-15 * float(np.abs(centre).max()):
        return Centred(np.zeros_like(array), centre, 1.0, 0.0)
    # Dividing first keeps the squares of very small and very large coordinates representable.
    radius = largest * float(np.sqrt(_reach(np.square(array / largest).sum(1))))
    rounding = torch.finfo(points.dtype).eps * (radius + float(np.abs(centre).max())) / radius
    return Centred(array / radius, centre, radius, rounding)


def _reach(squares: Array) -> float:
    """The largest of (N,) squared distances, leaving out points beyond three times the 99th-percentile distance.

    This only sets the unit of length, before there is a search tree; `find_strays` finds strays at any distance, by
    their neighbours.
    """
    most = np.partition(squares, (rank := 99 * (len(squares) - 1) // 100))[rank]
    near = squares <= 9 * most
    return float(squares.max() if most == 0 or near.all() else squares[near].max())


def to_array(tensor: Tensor) -> Array:
    """A float64 array on the host: neighbour search runs there, whatever the device."""
    return tensor.detach().to("cpu", torch.float64).numpy()


def check_cloud(points: Tensor, what: str = "points") -> None:
    """Refuse anything but (N, 3) finite floating point values, N ≥ 1."""
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
    if at.ndim != 1 or at.dtype == torch.bool or len(at) == 0:
        raise ValueError(
            f"`at` has the shape {tuple(at.shape)} and {at.dtype}; give (M,) indices or (M, 3) positions, M ≥ 1"
        )
    if not 0 <= int(at.min()) <= int(at.max()) < len(points):
        raise ValueError(f"`at` has an index outside 0..{len(points) - 1}; the cloud has {len(points)} points")
    return points[at]
