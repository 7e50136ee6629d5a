"""Local reference frames (LRFs): one interface to FLARE, SHOT and centred frames (paper, "Implementation details").

A frame has the columns x, y = z × x and z, and is given as the quaternion that maps frame coordinates to world
coordinates. Frames rotate with the cloud and do not depend on its position and scale; nothing is random. Where no such
frame exists, the result is marked invalid; it is never arbitrary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from qecnet.algebra import canonicalize, from_matrix
from qecnet.geometry._flare import PointNormals, flare_axes
from qecnet.geometry._shot import shot_axes
from qecnet.geometry._support import Array, Centred, centre_cloud, check_cloud, places
from qecnet.geometry.normals import SIGN, Sign, orient_normals, planes_within
from qecnet.geometry.radii import Radii, radii_of

Method = Literal["flare", "shot", "centred"]

# Queries and pairs of neighbours processed together: these bound memory and do not change results.
_AT_ONCE = 1024
_PAIRS = 1 << 19
_SHORTEST = 1e-3  # of a cloud of radius 1: shorter vectors have no reliable direction
_SLACK = 1 + 1e-6  # a point exactly on a radius stays inside although a rotation rounds differently


class Frames(NamedTuple):
    """Local reference frames.

    Attributes:
        quaternions: (M, 4), WXYZ, frame to world, w ≥ 0; the identity where a frame is invalid.
        valid: (M,) bool.
    """

    quaternions: Tensor
    valid: Tensor


def local_frames(
    points: Tensor,
    at: Tensor | None = None,
    method: Method = "flare",
    radii: Radii | None = None,
    sign: Sign = "inward",
) -> Frames:
    """Estimate local reference frames of a cloud.

    - "flare": z is the normal of a plane fit, with the sign of the neighbours' normals; x points to the highest point
      of a ring around the position. The paper uses these.
    - "shot": axes of a weighted covariance, signs by majority; uses `radii.tangent` only.
    - "centred": z is the normal, x the direction to the cloud's centroid in the tangent plane, which is also defined on
      flat surfaces; uses `radii.normals` only. Invalid where the normal itself points to the centroid.

    Args:
        points: (N, 3), one cloud, finite.
        at: (M,) indices into `points`, (M, 3) positions, or None for every point.
        method: "flare", "shot" or "centred".
        radii: in the cloud's units; by default `default_radii(points)`.
        sign: which way normals point, as for `fit_normals`; SHOT's signs come from its own votes.

    Returns:
        `Frames` of M quaternions in the dtype and on the device of `points`.
    """
    check_cloud(points)
    cloud = centre_cloud(points)
    return estimate_frames(cloud, cloud.of(places(points, at)), method, sign, points, radii)


def estimate_frames(
    cloud: Centred, queries: Array, method: Method, sign: Sign, like: Tensor, radii: Radii | None = None
) -> Frames:
    """`local_frames` at centred queries (M, 3) of a cloud that has been centred; `like` gives precision and device."""
    if method not in get_args(Method):
        raise ValueError(f'method is "{method}"; frames are "flare", "shot" or "centred"')
    radii = (radii_of(cloud) if radii is None else radii).scaled(_SLACK / cloud.radius)
    if method == "flare":
        normals = PointNormals(cloud, radii.normals, sign, like.dtype)
        pieces = _chunks(queries, cloud.tree, max(radii.z_axis, radii.tangent))
        chunks = [flare_axes(cloud, chunk, radii, cloud.tree, normals) for chunk in pieces]
    elif method == "shot":
        chunks = [shot_axes(cloud, chunk, radii.tangent) for chunk in _chunks(queries, cloud.tree, radii.tangent)]
    else:
        starts = range(0, len(queries), _AT_ONCE)
        chunks = [_centred_axes(cloud, queries[i : i + _AT_ONCE], radii.normals, sign, like.dtype) for i in starts]
    x, z, valid = map(np.concatenate, zip(*chunks, strict=True))
    return _frames(x, z, valid, like)


def plane_frames(cloud: Centred, queries: Array, like: Tensor) -> Frames:
    """Frames of a cloud that lies in a plane through its centroid, where neither side is inward.

    z is the plane's normal and x points to the centroid. Of the two sides, z points to the one from which the far end
    of the longest axis and that of the axis across it make a right-handed frame; a shape with equal ends, such as a
    parallelogram, may have either. All are invalid where the points lie on a line, or in no plane.
    """
    points = cloud.points - cloud.points.mean(0)
    variances, axes = np.linalg.eigh(points.T @ points)
    ends = points @ axes[:, :0:-1]
    z = np.cross(*(axes[:, :0:-1] * np.where((ends**3).sum(0) < 0, -1, 1)).T)
    x = cloud.points.mean(0) - queries
    x = x - np.outer(x @ z, z)
    length = np.linalg.norm(x, axis=1)
    smallest, middle, largest = variances
    flat = smallest <= _SHORTEST**2 * largest < middle
    valid = (length > _SHORTEST) & flat
    x = x / np.maximum(length, _SHORTEST)[:, None]
    return _frames(x, np.broadcast_to(z, x.shape), valid, like)


def _chunks(queries: Array, tree: cKDTree, radius: float) -> Iterator[Array]:
    """Runs of the queries (M, 3), each with no more neighbours within `radius` than fit into memory together."""

    def counts(places: Array) -> Array:
        return np.asarray(tree.query_ball_point(places, radius, return_length=True))

    # Counting takes a third of the time of the search, so a few queries are counted first.
    sparse = 2 * counts(queries[::16]).max() * min(len(queries), _AT_ONCE) <= _PAIRS
    up_to = np.zeros(len(queries)) if sparse else np.cumsum(counts(queries))
    start = 0
    while start < len(queries):
        before = up_to[start - 1] if start else 0
        full = int(np.searchsorted(up_to, before + _PAIRS, side="right"))
        end = min(max(full, start + 1), start + _AT_ONCE)
        yield queries[start:end]
        start = end


def _centred_axes(
    cloud: Centred, queries: Array, radius: float, sign: Sign, dtype: torch.dtype
) -> tuple[Array, Array, Array]:
    """x (M, 3), z (M, 3), valid (M,): z the signed normal, x towards the centroid in the tangent plane."""
    fits = planes_within(cloud, queries, radius, dtype)
    z, valid = orient_normals(fits, queries, cloud, sign)
    x = (queries * z).sum(1, keepdims=True) * z - queries
    length = np.sqrt(np.square(x).sum(1, keepdims=True))
    clear = length[:, 0] > 10 * np.maximum(SIGN, fits.tilt)
    return x / np.where(length > 0, length, 1), z, valid & clear


def _frames(x: Array, z: Array, valid: Array, like: Tensor) -> Frames:
    """Quaternions of the right-handed frames with these axes."""
    matrices = np.where(valid[:, None, None], np.stack([x, np.cross(z, x), z], axis=-1), np.eye(3))
    quaternions = canonicalize(from_matrix(torch.from_numpy(matrices), orthonormal=True))
    return Frames(quaternions.to(like), torch.from_numpy(valid).to(like.device))
