"""Directions in which a rigid object would rest on a plane: on faces of its convex hull, the steadiest first."""

from __future__ import annotations

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from qecnet.compiled import is_compiled
from qecnet.geometry._compiled import merge_compiled, reach_compiled
from qecnet.geometry._support import Array

FLAT = 1e-4
"""A cloud of radius 1 whose standard deviation along a principal axis is below this has no extent along it."""

TILT = np.radians(6.0)
"""How far an object is tilted to find out how steadily it stands: far enough to step over a rounded or worn edge."""

_MERGED = np.cos(np.radians(4.0))  # points sampled on one flat face give hull faces that differ a little
_FACES = 64  # merged faces that are compared, largest first: smaller ones are never steady
_DIRECTIONS = 32  # in which it is tilted
_LEAST_HEIGHT = 0.05  # of the centre, so that flat objects do not divide by zero
_RESOLUTION = 1e-5  # steadiness that differs by less is equal


def resting_directions(points: Array, most: int) -> Array:
    """Up directions in which an object at zero mean and radius 1 would stand, the steadiest first.

    A face's steadiness is how fast the centre rises, per radian and height, when the object is tilted away from it in
    the direction where it rises least; it is negative where the object falls over. Equally steady faces are ordered by
    their lowest point index, which a rotation does not change.

    A flat cloud stands on its two sides and its edges; a cloud on a line has the two ends of that line.

    Args:
        points: (N, 3) float64 at zero mean and radius 1.
        most: how many directions to return at most.

    Returns:
        (F, 3) unit vectors; none where all points are equal.
    """
    spread, axes = np.linalg.eigh(points.T @ points / len(points))
    extents = int((spread > FLAT**2).sum())
    if extents == 0:
        return np.zeros((0, 3))
    if extents == 1:
        return np.stack((axes[:, 2], -axes[:, 2]))
    try:
        faces = _solid_faces(points) if extents == 3 else _sheet_faces(points, axes)
    except QhullError:  # its arithmetic may fail for a cloud that is nearly flat
        faces = _sheet_faces(points, axes)
    *merging, corners = faces
    down, lowest = _merge_faces(*merging)
    height = (corners @ down.T).max(0)
    rise = _tilted_height(corners, down, axes) - height * np.cos(TILT)
    steadiness = rise / np.sin(TILT) / np.maximum(height, _LEAST_HEIGHT)
    order = np.lexsort((lowest, -np.round(steadiness / _RESOLUTION)))
    return -down[order[:most]]


def _solid_faces(points: Array) -> tuple[Array, Array, Array, Array]:
    """Faces of the hull: outward normals (F, 3), areas (F,), lowest indices (F,); and its corners."""
    hull = ConvexHull(points)
    start, *ends = (points[corner] for corner in hull.simplices.T)
    areas = np.linalg.norm(np.cross(ends[0] - start, ends[1] - start), axis=1) / 2
    return hull.equations[:, :3], areas, hull.simplices.min(1), points[hull.vertices]


def _sheet_faces(points: Array, axes: Array) -> tuple[Array, Array, Array, Array]:
    """The same for a flat cloud, as a sheet of some thickness across the first axis: two sides, and its edges."""
    across, along = axes[:, 0], axes[:, 1:]
    flat = points @ along
    ring = ConvexHull(flat).vertices  # anticlockwise
    start, end = flat[ring], flat[np.roll(ring, -1)]
    edges = end - start
    lengths = np.linalg.norm(edges, axis=1)
    outward = np.stack((edges[:, 1], -edges[:, 0]), axis=1) / lengths[:, None]
    area = (start[:, 0] * end[:, 1] - start[:, 1] * end[:, 0]).sum() / 2
    corners = start @ along.T
    return (
        np.concatenate((across[None], -across[None], outward @ along.T)),
        np.concatenate(([area, area], 2 * FLAT * lengths)),
        np.concatenate(([ring.min(), ring.min() + len(points)], np.minimum(ring, np.roll(ring, -1)))),
        np.concatenate((corners + FLAT * across, corners - FLAT * across)),
    )


def _merge_faces(normals: Array, areas: Array, indices: Array) -> tuple[Array, Array]:
    """Outward normals (M, 3) and lowest indices (M,) of merged faces, the ones with most area around them first."""
    if is_compiled():
        down, lowest = merge_compiled(normals, areas, indices, _FACES, _MERGED)
    else:
        down, lowest = _merge_plainly(normals, areas, indices)
    return down / np.linalg.norm(down, axis=1, keepdims=True), lowest


def _merge_plainly(normals: Array, areas: Array, indices: Array) -> tuple[Array, Array]:
    near = normals @ normals.T > _MERGED
    free = np.ones(len(areas), bool)
    merged, lowest = [], []
    for seed in np.argsort(-(near @ areas), kind="stable"):
        if free[seed]:
            same = near[seed] & free
            free &= ~same
            merged.append(areas[same] @ normals[same])
            lowest.append(indices[same].min())
            if len(merged) == _FACES:
                break
    return np.stack(merged), np.array(lowest)


def _tilted_height(corners: Array, down: Array, axes: Array) -> Array:
    """(M,) height of the centre above the plane after a tilt by `TILT` in the direction that raises it least."""
    # Any axis that rotates with the shape and is not the normal itself gives directions that rotate with it.
    across = np.where(np.abs(down @ axes[:, 2:]) < 0.9, axes[:, 2], axes[:, 1])
    x = np.cross(down, across)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.cross(down, x)
    angles = np.arange(_DIRECTIONS)[:, None, None] * (2 * np.pi / _DIRECTIONS)
    tilted = np.cos(TILT) * down + np.sin(TILT) * (np.cos(angles) * x + np.sin(angles) * y)
    tilted = tilted.reshape(-1, 3)
    heights = reach_compiled(corners, tilted) if is_compiled() else (tilted @ corners.T).max(1)
    return np.asarray(heights.reshape(_DIRECTIONS, -1).min(0))
