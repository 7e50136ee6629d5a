"""Shapes that look the same upside down: their form does not show which of two opposite directions is up."""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from qecnet.geometry import Mesh, PointCloud, sample_points

_POINTS = 10_000  # of the surface, whose mean the axis of a half turn goes through
_TURNED, _COMPARED = 1024, 4096  # of these points
_AXES = np.radians(np.arange(0.0, 180.0, 10.0))  # azimuths of the axes of half turns
_FINER = np.radians((5.0, 2.5, 1.25, 0.625))  # steps from the best of these
_FARTHEST = 0.02  # of the points, whose distances are also looked at alone: thin legs hardly change the mean
_ALIKE = np.array((1.3, 1.4))  # times the distances between two samplings: of all points, and of the farthest


def looks_same_upside_down(shape: Mesh | PointCloud) -> bool:
    """Check whether an upright shape looks the same after some half turn about a horizontal axis.

    Some points of the surface are turned and compared with others, by the distances to the nearest ones. A half turn
    is its own inverse, so comparing the other way round would say the same.

    Args:
        shape: with z up; a cloud should cover the whole surface evenly.

    Returns:
        Whether, for the best azimuth of the axis, the mean of these distances is at most 1.3 times that without a turn,
        and the mean of the largest 2% at most 1.4 times. Chance makes less of a difference; legs, a seat or an opening
        on top make more.
    """
    generator = torch.Generator().manual_seed(0)
    points = sample_points(shape, _POINTS, generator).points.double()
    points = (points - points.mean(0))[torch.randperm(len(points), generator=generator)]
    turned = points[: min(_TURNED, len(points) // 2)].numpy()
    tree = cKDTree(points[len(turned) : len(turned) + _COMPARED].numpy())
    expected = _measure(tree.query(turned)[0])
    axes, best, nearest = _AXES, 0.0, np.full(2, np.inf)
    for step in (*_FINER, 0.0):
        found = _measure(tree.query(_turn(turned, axes))[0])
        if found[:, 0].min() < nearest[0]:
            best, nearest = axes[found[:, 0].argmin()], found[found[:, 0].argmin()]
        axes = best + np.array((-step, step))
    return bool((nearest <= _ALIKE * expected).all())


def _measure(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of distances (..., N), and that of the largest. → (..., 2)"""
    last = max(1, round(_FARTHEST * distances.shape[-1]))
    return np.stack((distances.mean(-1), np.sort(distances, axis=-1)[..., -last:].mean(-1)), -1)


def _turn(points: NDArray[np.float64], axes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points (N, 3) after a half turn about each of the horizontal axes with these azimuths (A,). → (A, N, 3)"""
    cos, sin, one = np.cos(2 * axes), np.sin(2 * axes), np.ones_like(axes)
    zero = np.zeros_like(axes)
    turns = np.array(((cos, sin, zero), (sin, -cos, zero), (zero, zero, -one)))
    found: NDArray[np.float64] = np.einsum("ija,nj->ani", turns, points)
    return found
