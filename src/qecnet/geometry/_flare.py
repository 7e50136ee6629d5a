"""FLARE frames (Petrelli & Di Stefano 2012; paper, "Implementation details"), as PCL estimates them.

z is the normal of a plane fit, with the sign of the neighbours' normals; x points, in the tangent plane, to the
highest point of a ring around the position. Where PCL chooses a random axis, the frame is invalid here.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.spatial import cKDTree

from qecnet.geometry._neighbours import pairs_within
from qecnet.geometry._support import LEVEL, Array, Centred
from qecnet.geometry.normals import SIGN, Sign, orient_normals, planes_of_offsets, planes_within
from qecnet.geometry.radii import Radii

_FEWEST = 6


class PointNormals:
    """Signed normals of a cloud; those of its points are fitted once, when they are first needed."""

    def __init__(self, cloud: Centred, radius: float, sign: Sign, dtype: torch.dtype) -> None:
        self._cloud, self._radius, self._sign, self._dtype = cloud, radius, sign, dtype
        self._normals, self._known = np.zeros_like(cloud.points), np.zeros(len(cloud.points), bool)

    def at(self, queries: Array) -> tuple[Array, Array]:
        """normals (M, 3) and valid (M,) at centred queries (M, 3)."""
        return orient_normals(
            planes_within(self._cloud, queries, self._radius, self._dtype), queries, self._cloud, self._sign
        )

    def of(self, points: Array) -> Array:
        """(P, 3) normals of the cloud's points with these indices (P,); zero where there is no plane or no sign."""
        asked = np.zeros(len(self._known), bool)
        asked[points] = True
        new = np.flatnonzero(asked & ~self._known)
        if len(new):
            self._normals[new], _ = self.at(self._cloud.points[new])
            self._known[new] = True
        return np.asarray(self._normals[points])


def flare_axes(
    cloud: Centred, queries: Array, radii: Radii, surface: cKDTree, normals: PointNormals
) -> tuple[Array, Array, Array]:
    """x (M, 3), z (M, 3) and valid (M,) for centred queries (M, 3); rings consist of points of `surface`."""
    z, upright = _z_axes(cloud, queries, radii.z_axis, normals)
    x, found = _x_axes(surface, queries, z, radii)
    return x, z, upright & found


def _z_axes(cloud: Centred, queries: Array, radius: float, normals: PointNormals) -> tuple[Array, Array]:
    """z (M, 3) and valid (M,): the plane fit within the z radius, on the side of the mean of its points' normals.

    With fewer than six points to fit, the normal at the position is used instead, as in PCL.
    """
    rows, near, _ = pairs_within(cloud.tree, queries, radius)
    offsets = cloud.points[near] - queries[rows]
    (axes, valid, _), count = planes_of_offsets(rows, offsets, len(queries), cloud.rounding)

    # A normal without a sign is zero, and so drops out of the mean.
    agreement = (normals.of(near) * axes[rows]).sum(1)
    side = np.bincount(rows, agreement, len(queries)) / np.maximum(count, 1)
    valid &= np.abs(side) > SIGN
    axes = np.where(side < 0, -1, 1)[:, None] * axes

    few = np.flatnonzero(count < _FEWEST)
    if len(few):
        axes[few], valid[few] = normals.at(queries[few])
    return axes, valid


def _x_axes(surface: cKDTree, queries: Array, z: Array, radii: Radii) -> tuple[Array, Array]:
    """x (M, 3) and valid (M,): towards the ring's highest point above the tangent plane.

    Of points that are equally high, as on any flat face, the one nearest the cloud's centre is taken: a rule that does
    not depend on rotation and gives the same for another sample of the face. Of mirror images, as a symmetric shape
    has them, the one to the left of the direction to the centre is taken, seen with z up. If several are left even
    then, there is no x.
    """
    rows, near, distances = pairs_within(surface, queries, radii.tangent)
    valid = np.bincount(rows, minlength=len(queries)) >= _FEWEST
    ring = distances > radii.margin * radii.tangent
    rows, near = rows[ring], near[ring]
    offsets = surface.data[near] - queries[rows]
    heights = (offsets * z[rows]).sum(1)
    level = LEVEL * radii.tangent
    kept = np.flatnonzero(_least(rows, -heights, level, len(queries)))
    from_centre = np.sqrt(np.square(surface.data[near[kept]]).sum(1))
    kept = kept[_least(rows[kept], from_centre, level, len(queries))]
    to_the_right = (offsets[kept] * np.cross(z, queries)[rows[kept]]).sum(1)
    kept = kept[_least(rows[kept], to_the_right, level, len(queries))]
    found, first, of = np.unique(rows[kept], return_index=True, return_inverse=True)
    best = kept[first]

    x, seen = np.zeros_like(queries), np.zeros(len(queries), bool)
    x[found] = offsets[best] - heights[best, None] * z[found]
    length = np.sqrt(np.square(x).sum(1))
    seen[found] = length[found] > level
    # A repeated position does not count as another point.
    rival = np.abs(offsets[kept] - offsets[best[of]]).max(1) > 4 * level
    seen[rows[kept[rival]]] = False
    return x / np.where(seen, length, 1)[:, None], valid & seen


def _least(rows: Array, values: Array, level: float, count: int) -> Array:
    """(P,) whether each value is, but for rounding, the least of its row."""
    least = np.full(count, np.inf)
    np.minimum.at(least, rows, values)
    return np.asarray(values <= least[rows] + level)
