"""FLARE frames (Petrelli & Di Stefano 2012; paper, "Implementation details"), to the letter of PCL's estimator.

z is fitted to what is near and takes the side of the neighbours' normals; x points, in the tangent plane, to the
highest point of a ring around the place. Where PCL draws a random axis, a frame here is invalid.
"""

from __future__ import annotations

import numpy as np
import torch

from qecnet.geometry._support import Array, Centred
from qecnet.geometry.neighbours import within
from qecnet.geometry.normals import SIGN, Sign, planes_of_neighbours, planes_within, signed
from qecnet.geometry.radii import Radii

_FEWEST = 6

LEVEL = 3e-5
"""Heights closer than this share of the tangent radius are equal: rounding of float32 coordinates stays below it."""


def flare_axes(
    cloud: Centred, queries: Array, radii: Radii, surface: Array, sign: Sign, dtype: torch.dtype
) -> tuple[Array, Array, Array, Array]:
    """x (M, 3), z (M, 3), valid (M,) and the height (M,) of the point that x looks at, for centred queries (M, 3).

    `surface` (S,) are the indices of the points that the ring is searched in.
    """
    z, upright = _z_axes(cloud, queries, radii, sign, dtype)
    x, height, found = _x_axes(cloud.points[surface], queries, z, radii)
    return x, z, upright & found, height


def _z_axes(cloud: Centred, queries: Array, radii: Radii, sign: Sign, dtype: torch.dtype) -> tuple[Array, Array]:
    """z (M, 3) and valid (M,): the plane fit within the z radius, on the side of the mean of its points' normals.

    With fewer than six points to fit, the place's own normal stands in, as in PCL.
    """
    near, mask = within(cloud.points, queries, radii.z_axis)
    axes, valid = planes_of_neighbours(cloud.points[near], mask, queries)

    used = np.unique(near[mask])
    normals = np.zeros_like(cloud.points)
    normals[used], _ = _normals(cloud, cloud.points[used], radii, sign, dtype)
    # A normal without a side is zero, and so drops out of the mean.
    side = ((normals[near] * mask[..., None]).sum(1) / np.maximum(mask.sum(1), 1)[:, None] * axes).sum(1)
    valid &= np.abs(side) > SIGN
    axes = np.where(side < 0, -1, 1)[:, None] * axes

    few = np.flatnonzero(mask.sum(1) < _FEWEST)
    axes[few], valid[few] = _normals(cloud, queries[few], radii, sign, dtype)
    return axes, valid


def _normals(cloud: Centred, queries: Array, radii: Radii, sign: Sign, dtype: torch.dtype) -> tuple[Array, Array]:
    return signed(*planes_within(cloud.points, queries, radii.normals, dtype), queries, cloud, sign)


def _x_axes(surface: Array, queries: Array, z: Array, radii: Radii) -> tuple[Array, Array, Array]:
    """x (M, 3), height (M,) and valid (M,): towards the ring's highest point above the tangent plane.

    Of points equally high, as on any flat face, the one nearest the cloud's centre is taken: a rule that a rotation
    does not change and that another sample of the same face follows too.
    """
    near, mask = within(surface, queries, radii.tangent)
    offsets = surface[near] - queries[:, None]
    ring = mask & (np.square(offsets).sum(-1) > (radii.margin * radii.tangent) ** 2)
    heights = np.where(ring, (offsets * z[:, None]).sum(-1), -np.inf)
    highest = heights.max(1, keepdims=True)
    level = ring & (heights >= highest - LEVEL * radii.tangent)
    best = np.where(level, np.square(surface[near]).sum(-1), np.inf).argmin(1)

    rows = np.arange(len(queries))
    valid = ring.any(1) & (mask.sum(1) >= _FEWEST)
    height = np.where(valid, heights[rows, best], 0)
    x = offsets[rows, best] - height[:, None] * z
    length = np.sqrt(np.square(x).sum(1))
    valid &= length > LEVEL * radii.tangent
    return x / np.where(valid, length, 1)[:, None], height, valid
