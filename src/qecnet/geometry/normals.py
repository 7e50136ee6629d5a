"""Surface normals by local plane fits (Hoppe et al. 1992), with a sign rule that rotates with the cloud.

A plane's normal is the smallest axis of the neighbours' covariance about their own mean.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from threadpoolctl import ThreadpoolController
from torch import Tensor

from qecnet.compiled import is_compiled
from qecnet.geometry._compiled import sums_compiled
from qecnet.geometry._neighbours import check_radius
from qecnet.geometry._support import FAR, Array, Centred, centre_cloud, check_cloud, places, search_tree, to_array

SIGN = 1e-5
"""A direction whose product with its reference is below this, or below what rounding makes of zero (cloud of radius
1), has no sign."""

Sign = str | Tensor

GAP = 1e-4
"""Two eigenvalues closer than this share of the largest leave the axis between them undecided."""

FEWEST = 3
"""A plane needs three points."""

_LOST = 8  # rounding errors of a sum's size: measured to bound the error of sums over a few hundred points
# Measured: with these, products stay in cache and few candidates are far from all queries of their group.
_GROUP = 96  # queries in a block, at most
_WIDEST = 4  # radii that a block may measure from side to side: sums about its middle lose little to cancellation
_GROUPS = 8  # blocks whose candidates are looked up together; few enough that threads share the work evenly


class Planes(NamedTuple):
    """Unsigned normals (M, 3), zero where there is no plane; valid (M,); and tilt (M,), the largest angle by which
    rounding may change a normal: large where the neighbours are nearly on a line."""

    normals: Array
    valid: Array
    tilt: Array


def fit_normals(
    points: Tensor,
    at: Tensor | None = None,
    radius: float | None = None,
    neighbours: int | None = None,
    sign: Sign = "inward",
) -> tuple[Tensor, Tensor]:
    """Fit planes to neighbourhoods, and return their unit normals.

    Args:
        points: (N, 3).
        at: (M,) indices, (M, 3) positions, or None for all points.
        radius: fit all points within this distance.
        neighbours: fit this many nearest points; give either this or a radius.
        sign: "inward" (towards the cloud's centroid: the release), "outward", a viewpoint (3,) to point towards, or
            reference normals (N, 3) of the points to agree with (a row of zeros: unknown).

    Returns:
        Normals (M, 3) and valid (M,). A normal is invalid, and zero, with fewer than three neighbours, with neighbours
        on a line or equally spread in all directions, and where the sign rule cannot decide between the two sides.
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
    """Apply the sign rule of `fit_normals` to the normals at centred `queries`. → normals (M, 3), valid (M,)"""
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


def planes_within(cloud: Centred, queries: Array, radius: float, dtype: torch.dtype) -> Planes:
    """Plane fits to the cloud's points within `radius` of centred queries.

    Queries go in compact groups (runs of kd-tree leaves) with all leaves that come near the group: a dense product
    over such a block is faster than a walk of the tree for each query. Works in `dtype`, on torch's number of threads.
    """
    kind = np.float64 if dtype == torch.float64 else np.float32
    # One bound for all queries: the error of each depends on its block, and so on the rotation of the cloud.
    lost = _LOST * float(np.finfo(kind).eps) * (_WIDEST * radius) ** 2
    if is_compiled():
        return planes_of_sums(sums_compiled(cloud, kind, queries, radius), lost, cloud.rounding)
    cells, _ = cloud.cells(kind)
    low, high = cells.min(2), np.where(cells < FAR, cells, -FAR).max(2)
    order = search_tree(queries).indices
    sums = np.empty((len(queries), 10))

    def fill(starts: range) -> None:
        work = _Workspace(kind)
        for first in starts:
            rows = order[first : first + _GROUP * _GROUPS]
            here = queries[rows].T.astype(kind)
            begins, least, most = _blocks(here, _WIDEST * radius)
            near = _near(least, most, low, high, radius)
            for group, (begin, end) in enumerate(pairwise([*begins, len(rows)])):
                part = slice(begin, end)
                there = cells.compress(near[group], axis=1).reshape(3, -1)
                sums[rows[part]] = _sums_within(here[:, part], there, radius, work)

    threads = torch.get_num_threads()
    starts = range(0, len(queries), _GROUP * _GROUPS)
    # Products this small gain nothing from BLAS's own threads, which wait for one another when cores are busy.
    with _blas().limit(limits=1), ThreadPoolExecutor(threads) as pool:
        deque(pool.map(fill, [starts[i::threads] for i in range(threads)]), maxlen=0)
    return planes_of_sums(sums.T, lost, cloud.rounding)


def _blocks(here: Array, widest: float) -> tuple[Array, Array, Array]:
    """Where runs (B,) of queries (3, Q) begin that measure no more than `widest`, and their least and most (3, B)."""
    begins = np.arange(0, here.shape[1], _GROUP)
    while True:
        least, most = np.minimum.reduceat(here, begins, axis=1), np.maximum.reduceat(here, begins, axis=1)
        ends = np.append(begins[1:], here.shape[1])
        wide = ((most - least).max(0) > widest) & (ends > begins + 1)
        if not wide.any():
            return begins, least, most
        begins = np.sort(np.append(begins, (begins + ends)[wide] // 2))


def _near(least: Array, most: Array, low: Array, high: Array, radius: float) -> Array:
    """(B, C) whether the box of each block of queries (3, B) comes within `radius` of the box of each cell (3, C)."""
    squares = np.zeros((least.shape[1], low.shape[1]), low.dtype)
    for axis in range(3):
        gap = np.maximum(low[axis] - most[axis][:, None], least[axis][:, None] - high[axis])
        np.maximum(gap, 0, out=gap)
        gap *= gap
        squares += gap
    # A little more than the radius: what is near only by rounding is settled by the product.
    return np.asarray(squares <= 1.0001 * radius * radius)


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


class _Workspace:
    """Memory that blocks reuse: for blocks of this size, allocating it again takes as long as the work itself."""

    def __init__(self, kind: type[np.floating]) -> None:
        self.kind = kind
        self._held: dict[tuple[str, type], Array] = {}

    def take(self, name: str, shape: tuple[int, int], kind: type[np.generic] | None = None) -> Array:
        """An array of this shape with any content, in the memory that the last one of this name had."""
        key, size = (name, kind or self.kind), shape[0] * shape[1]
        if key not in self._held or self._held[key].size < size:
            self._held[key] = np.empty(size + size // 2, kind or self.kind)
        return self._held[key][:size].reshape(shape)


def _sums_within(here: Array, there: Array, radius: float, work: _Workspace) -> Array:
    """(Q, 10) sums of 1, x and x xᵀ over the points (3, P) within `radius` of each query (3, Q).

    One matrix product: 0/1 membership times moments, about the block's own middle, where little is lost to
    cancellation. The fit does not depend on the origin.
    """
    middle = here.mean(1, keepdims=True)
    here = here - middle
    # Rows: |x|², 1, x, y, z, xx, yy, zz, xy, yz, xz. The first five decide membership, the last ten are summed.
    terms = work.take("terms", (11, there.shape[1]))
    x = terms[2:5]
    np.subtract(there, middle, out=x)
    terms[1] = 1
    np.multiply(x, x, out=terms[5:8])
    np.multiply(x[:2], x[1:], out=terms[8:10])
    np.multiply(x[0], x[2], out=terms[10])
    np.add(terms[5], terms[6], out=terms[0])
    terms[0] += terms[7]
    test = np.empty((here.shape[1], 5), work.kind)
    test[:, 0], test[:, 1], test[:, 2:] = 1, (here * here).sum(0) - radius * radius, -2 * here.T
    shape = len(test), there.shape[1]
    distances = np.matmul(test, terms[:5], out=work.take("product", shape))
    near = np.less_equal(distances, 0, out=work.take("near", shape, np.bool_))
    np.copyto(distances, near)
    return np.asarray(distances @ terms[1:].T)


def planes_of_sums(sums: Array, lost: Array | float, rounding: float) -> Planes:
    """Plane fits from (10, M) sums of 1, x, y, z, xx, yy, zz, xy, yz, xz over each place's neighbours.

    Where the spread is no larger than the cancellation error of the sums, as for one repeated point, there is no plane.
    `rounding` is the error of the coordinates themselves.
    """
    count = np.maximum(sums[0], 1)
    x, y, z = sums[1:4] / count
    xx, yy, zz, xy, yz, xz = sums[4:] / count
    axes, gap = smallest_axis(xx - x * x, yy - y * y, zz - z * z, xy - x * y, yz - y * z, xz - x * z, lost)
    valid = (gap > 0) & (sums[0] >= FEWEST)
    gap = np.where(valid, gap, 1)
    return Planes(np.where(valid[:, None], axes, 0), valid, lost / gap + rounding / np.sqrt(gap))


def planes_of_offsets(rows: Array, offsets: Array, count: int, rounding: float) -> tuple[Planes, Array]:
    """Plane fits of (P, 3) offsets from `count` places, each belonging to a row; and how many (count,) each has."""
    sums = moment_sums(rows, offsets, count)
    lost = _LOST * np.finfo(np.float64).eps * sums[4:7].sum(0) / np.maximum(sums[0], 1)
    return planes_of_sums(sums, lost, rounding), sums[0]


def moment_sums(rows: Array, offsets: Array, count: int) -> Array:
    """(10, count) sums for `planes_of_sums` over (P, 3) offsets, each belonging to a row."""
    x, y, z = offsets.T
    products = (np.ones_like(x), x, y, z, x * x, y * y, z * z, x * y, y * z, x * z)
    return np.stack([np.bincount(rows, term, count) for term in products])


def smallest_axis(
    xx: Array, yy: Array, zz: Array, xy: Array, yz: Array, xz: Array, noise: Array | float = 0.0
) -> tuple[Array, Array]:
    """Unit eigenvector (M, 3) of the smallest eigenvalue of symmetric 3×3 matrices, and the gap (M,) to the next.

    It is well defined where that gap is more than `noise` and a share of the largest; elsewhere both are zero.

    Closed form (the trigonometric roots of the characteristic polynomial, then the largest cross product of two rows
    of C − λI): ten times faster than a batched solver for thousands of matrices. An axis is off
    by about ε / gap² for a gap to the next eigenvalue relative to the largest: 1e-8 at the narrowest gap that counts
    as defined.
    """
    mean = (xx + yy + zz) / 3
    a, b, c = xx - mean, yy - mean, zz - mean
    spread = np.sqrt(np.maximum((a * a + b * b + c * c + 2 * (xy * xy + yz * yz + xz * xz)) / 6, 0))
    cube = 2 * spread**3
    determinant = a * (b * c - yz * yz) - xy * (xy * c - yz * xz) + xz * (xy * yz - b * xz)
    angle = np.arccos(np.clip(determinant / np.where(cube > 0, cube, 1), -1, 1)) / 3
    largest = mean + 2 * spread * np.cos(angle)
    smallest = mean + 2 * spread * np.cos(angle + 2 * np.pi / 3)
    middle = 3 * mean - largest - smallest

    a, b, c = xx - smallest, yy - smallest, zz - smallest
    crosses = np.stack(
        [
            [xy * yz - xz * b, xy * xz - a * yz, a * b - xy * xy],
            [xy * c - xz * yz, xz * xz - a * c, a * yz - xy * xz],
            [b * c - yz * yz, yz * xz - xy * c, xy * yz - b * xz],
        ]
    )
    lengths = np.sqrt(np.square(crosses).sum(1))
    best, column = lengths.argmax(0), np.arange(len(xx))
    length = lengths[best, column]
    defined = (middle - smallest > np.maximum(GAP * largest, noise)) & (length > 0)
    axis = crosses[best, :, column] / np.where(length > 0, length, 1)[:, None]
    return np.where(defined[:, None], axis, 0), np.where(defined, middle - smallest, 0)
