"""Surface normals by local plane fits (Hoppe et al. 1992), with a sign rule that turns with the cloud."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from qecnet.geometry._neighbours import check_radius
from qecnet.geometry._planes import FEWEST, Planes, planes_of_offsets, planes_within
from qecnet.geometry._support import Array, Centred, centre_cloud, check_cloud, places, to_array

SIGN = 1e-5
"""A direction whose product with its reference is below this, or below what rounding makes of zero (cloud of radius
1), has no sign."""

Sign = str | Tensor


def fit_normals(
    points: Tensor,
    at: Tensor | None = None,
    radius: float | None = None,
    neighbours: int | None = None,
    sign: Sign = "inward",
) -> tuple[Tensor, Tensor]:
    """Unit normals of the planes through what is near each place.

    Args:
        points: (N, 3).
        at: (M,) indices, (M, 3) positions, or None for all points.
        radius: fit all points within this distance, or
        neighbours: fit this many nearest; exactly one of the two.
        sign: "inward" (towards the cloud's centroid: the release), "outward", a viewpoint (3,) to point towards, or
            reference normals (N, 3) of the points to agree with (a row of zeros: unknown).

    Returns:
        normals (M, 3) and valid (M,). Invalid (and zero) are places with fewer than three neighbours, with neighbours
        on a line or equally spread in all directions, and where the sign rule cannot tell two sides apart.
    """
    check_cloud(points)
    cloud = centre_cloud(points)
    queries = cloud.of(places(points, at))
    if (radius is None) == (neighbours is None):
        raise ValueError("give either a radius or a number of neighbours for the plane fits, not both")
    if radius is not None:
        check_radius(radius)
        fits = planes_within(cloud, queries, radius / cloud.radius, points.dtype)
    else:
        assert neighbours is not None
        fits = _planes_of_nearest(cloud, queries, neighbours)
    normals, valid = orient_normals(fits, queries, cloud, sign)
    return torch.from_numpy(normals).to(points), torch.from_numpy(valid).to(points.device)


def orient_normals(planes: Planes, queries: Array, cloud: Centred, sign: Sign) -> tuple[Array, Array]:
    """Give the normals at centred `queries` the side that `fit_normals`' rule asks for: normals (M, 3), valid (M,)."""
    reference = _reference(queries, cloud, sign)
    side = (planes.normals * reference).sum(1)
    doubt = planes.tilt * np.sqrt(np.square(reference).sum(1))
    valid = planes.valid & (np.abs(side) > np.maximum(SIGN, doubt))
    return np.where(valid, np.sign(side), 0)[:, None] * planes.normals, valid


def _planes_of_nearest(cloud: Centred, queries: Array, count: int) -> Planes:
    """`planes_within` for the `count` nearest neighbours instead."""
    if not FEWEST <= count <= len(cloud.points):
        raise ValueError(f"{count} neighbours were requested for a plane fit; request {FEWEST} to {len(cloud.points)}")
    _, near = cloud.tree.query(queries, k=np.arange(1, count + 1))
    offsets = (cloud.points[near] - queries[:, None]).reshape(-1, 3)
    rows = np.repeat(np.arange(len(queries)), count)
    return planes_of_offsets(rows, offsets, len(queries), cloud.rounding)[0]


def _reference(queries: Array, cloud: Centred, sign: Sign) -> Array:
    """(M, 3) directions that normals are to agree with."""
    if isinstance(sign, str):
        if sign not in ("inward", "outward"):
            raise ValueError(f'sign is "{sign}"; it is "inward", "outward", a viewpoint (3,) or normals (N, 3)')
        return -queries if sign == "inward" else queries
    if sign.shape == (3,):
        towards = cloud.of(sign[None]) - queries
        # A far viewpoint must not decide by its distance whether a product counts as zero.
        return np.asarray(towards / np.maximum(np.sqrt(np.square(towards).sum(1, keepdims=True)), 1))
    if sign.shape == cloud.points.shape:
        _, nearest = cloud.tree.query(queries)
        return np.asarray(to_array(sign)[nearest])
    raise ValueError(
        f"sign has the shape {tuple(sign.shape)}; give a viewpoint (3,) or reference normals {cloud.points.shape}"
    )
