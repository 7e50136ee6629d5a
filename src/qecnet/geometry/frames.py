"""Local reference frames (LRFs): one interface to FLARE, SHOT and centred frames (paper, "Implementation details").

A frame has the columns x, y = z × x and z, and is given as the quaternion that turns frame coordinates into the
world's. All of it turns with the cloud and does not move with the cloud's position and scale; nothing is random. A
place that has no such frame is invalid; it is never given an arbitrary one.
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
from qecnet.geometry._planes import planes_within
from qecnet.geometry._shot import shot_axes
from qecnet.geometry._support import Array, Centred, centred, check_cloud, places, search_tree
from qecnet.geometry.normals import SIGN, Sign, signed
from qecnet.geometry.radii import Radii, radii_of
from qecnet.geometry.sampling import random_points

Method = Literal["flare", "shot", "centred"]

# Places and pairs of neighbours worked on together: these bound memory and change no result.
_AT_ONCE = 1024
_PAIRS = 1 << 19
_SLACK = 1 + 1e-6  # a point exactly on a radius stays inside when rounding turns with the cloud


class Frames(NamedTuple):
    """Quaternions (M, 4), WXYZ, frame to world, w ≥ 0, and valid (M,); what is invalid has the identity."""

    quaternions: Tensor
    valid: Tensor


def local_frames(
    points: Tensor,
    at: Tensor | None = None,
    method: Method = "flare",
    radii: Radii | None = None,
    sign: Sign = "inward",
    surface: float | Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Frames:
    """Estimates a local reference frame at each place.

    - "flare": z from a plane fit, x towards the highest point of the ring around the place, as the paper uses it.
    - "shot": axes of a weighted covariance, signs by majority; uses `radii.tangent` only.
    - "centred": z the normal, x the direction to the cloud's centroid in the tangent plane, which flat surfaces do
      not confuse; uses `radii.normals` only. Invalid where the normal itself points to the centroid.

    Args:
        points: (N, 3), one cloud, finite.
        at: (M,) indices into `points`, (M, 3) positions, or None for every point.
        radii: in the cloud's units; by default `default_radii(points)`.
        sign: which side normals look to, as for `fit_normals`; SHOT's signs come from its own votes.
        surface: where FLARE looks for its highest point: indices of points, or a share of the cloud (above 0 and
            below 1) drawn from `generator`; by default the whole cloud.

    Returns:
        `Frames` of M quaternions in the dtype and on the device of `points`.
    """
    if method == "flare":
        return flare_frames(points, at, radii, sign, surface, generator)[0]
    if method not in get_args(Method):
        raise ValueError(f'method is "{method}"; frames are "flare", "shot" or "centred"')
    cloud, queries, radii = _prepared(points, at, radii)
    if method == "shot":
        chunks = [shot_axes(cloud, chunk, radii.tangent) for chunk in _chunks(queries, cloud.tree, radii.tangent)]
    else:
        starts = range(0, len(queries), _AT_ONCE)
        chunks = [_centred_axes(cloud, queries[i : i + _AT_ONCE], radii.normals, sign, points.dtype) for i in starts]
    x, z, valid = map(np.concatenate, zip(*chunks, strict=True))
    return _frames(x, z, valid, like=points)


def flare_frames(
    points: Tensor,
    at: Tensor | None = None,
    radii: Radii | None = None,
    sign: Sign = "inward",
    surface: float | Tensor | None = None,
    generator: torch.Generator | None = None,
) -> tuple[Frames, Tensor]:
    """FLARE frames with their score; arguments as for `local_frames`.

    Returns:
        `Frames` and score (M,): the signed height, in the cloud's units and along z above the place, of the point
        that x looks at; 0 where invalid.
    """
    cloud, queries, radii = _prepared(points, at, radii)
    ring = cloud.tree if surface is None else search_tree(cloud.points[_surface(points, surface, generator)])
    normals = PointNormals(cloud, radii.normals, sign, points.dtype)
    pieces = _chunks(queries, cloud.tree, max(radii.z_axis, radii.tangent))
    chunks = [flare_axes(cloud, chunk, radii, ring, normals) for chunk in pieces]
    x, z, valid, height = map(np.concatenate, zip(*chunks, strict=True))
    score = torch.from_numpy(np.where(valid, height * cloud.radius, 0)).to(points)
    return _frames(x, z, valid, like=points), score


def _prepared(points: Tensor, at: Tensor | None, radii: Radii | None) -> tuple[Centred, Array, Radii]:
    check_cloud(points)
    cloud = centred(points)
    radii = radii_of(cloud) if radii is None else radii
    return cloud, cloud.of(places(points, at)), radii.scaled(_SLACK / cloud.radius)


def _surface(points: Tensor, surface: float | Tensor, generator: torch.Generator | None) -> Array:
    """Indices of the points that FLARE's ring is searched in."""
    if isinstance(surface, Tensor):
        places(points, surface)
        return surface.cpu().numpy()
    if not 0 < surface < 1 or generator is None:
        raise ValueError(f"surface is {surface}; a share is above 0 and below 1 and needs a generator to draw it")
    return random_points(points, max(1, round(surface * len(points))), generator).cpu().numpy()


def _chunks(queries: Array, tree: cKDTree, radius: float) -> Iterator[Array]:
    """Runs of the queries (M, 3), each with no more neighbours within `radius` than fit into memory together."""

    def counts(places: Array) -> Array:
        return np.asarray(tree.query_ball_point(places, radius, return_length=True))

    # Counting takes a third of the search itself: few places tell whether there is anything to count.
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
    z, valid = signed(fits, queries, cloud, sign)
    x = (queries * z).sum(1, keepdims=True) * z - queries
    length = np.sqrt(np.square(x).sum(1, keepdims=True))
    clear = length[:, 0] > 10 * np.maximum(SIGN, fits.tilt)
    return x / np.where(length > 0, length, 1), z, valid & clear


def _frames(x: Array, z: Array, valid: Array, like: Tensor) -> Frames:
    """Quaternions of the right-handed frames with these axes."""
    matrices = np.where(valid[:, None, None], np.stack([x, np.cross(z, x), z], axis=-1), np.eye(3))
    quaternions = canonicalize(from_matrix(torch.from_numpy(matrices), orthonormal=True))
    return Frames(quaternions.to(like), torch.from_numpy(valid).to(like.device))
