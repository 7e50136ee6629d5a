"""Shapes that are boxes: their form does not show which way is up."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import ConvexHull, QhullError

from qecnet.geometry import Mesh, PointCloud, sample_points

_POINTS = 2000  # of the surface that are looked at
_ON_BOX = 0.9  # of the surface, at least
_DEPTH = 0.025  # of the box's mean side, to which a point counts as on the box


def is_box(shape: Mesh | PointCloud) -> bool:
    """Check whether a shape is a box, such as a product box or the case of a disc.

    Args:
        shape: any shape; a cloud should cover the whole surface evenly.

    Returns:
        Whether 90% of the surface is near the faces of the smallest box around it: within 2.5% of its mean side length.
    """
    points = sample_points(shape, _POINTS, torch.Generator().manual_seed(0)).points.double().numpy()
    try:
        inside, sides = fit_box(points)
    except QhullError:  # all points are in one plane
        return False
    return bool(np.quantile(inside.min(1), _ON_BOX) < _DEPTH * sides.mean())


def fit_box(points: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Fit the smallest box with a face on a face of the convex hull and a side along an edge of the hull's outline.

    Args:
        points: (N, 3).

    Returns:
        (N, 3) distances of the points from the nearer of the two faces across each axis of the box, and the lengths
        (3,) of its sides.

    Raises:
        QhullError: if all points are in one plane.
    """
    hull = ConvexHull(points)
    corners = points[hull.vertices]
    best, smallest = np.eye(3), np.inf
    for normal in np.unique(hull.equations[:, :3].round(6), axis=0):
        across = np.linalg.svd(normal[None])[2]  # the normal, and two axes of the plane across it
        flat = corners @ across[1:].T
        outline = flat[ConvexHull(flat).vertices]
        edges = np.roll(outline, -1, axis=0) - outline
        angles = np.arctan2(edges[:, 1], edges[:, 0])
        turns = np.stack((np.cos(angles), np.sin(angles), -np.sin(angles), np.cos(angles)), -1).reshape(-1, 2, 2)
        areas = np.ptp(turns @ outline.T, axis=-1).prod(-1)
        volume = areas.min() * np.ptp(corners @ across[0])
        if volume < smallest:
            best, smallest = np.concatenate((across[:1], turns[areas.argmin()] @ across[1:])), volume
    along = points @ best.T
    low, high = along.min(0), along.max(0)
    return np.minimum(along - low, high - along), high - low
