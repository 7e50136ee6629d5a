"""Rotation-invariant descriptors without learning, to compare retrieval with."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from qecnet.algebra import rotate
from qecnet.geometry import OrientedPoints

_CELLS = 6
"""Cells along each principal axis."""
_BINS = 5
"""Of each of the four point pair features."""


def count_principal_cells(points: OrientedPoints) -> NDArray[np.float64]:
    """Count the points in the cells of a grid along a shape's principal axes.

    Axes are ordered by variance; each points to the side where the third moment is positive.

    Returns:
        (216,), square roots of shares, of length 1.
    """
    positions = points.positions[points.valid].double().numpy()
    centred = positions - positions.mean(0)
    axes = np.linalg.eigh(centred.T @ centred)[1]
    rotated = centred @ axes
    rotated *= np.where((rotated**3).sum(0) < 0, -1, 1)
    scaled = rotated / np.abs(rotated).max()
    edges = np.linspace(-1, 1, _CELLS + 1)
    return _roots(np.histogramdd(scaled, [edges] * 3)[0])


def count_pair_features(points: OrientedPoints) -> NDArray[np.float64]:
    """Count the point pair features of all pairs: the distance, both angles to it, the angle between the normals.

    Normals are the z axes of the local reference frames. Distances are relative to the largest.

    Returns:
        (625,), square roots of shares, of length 1.
    """
    positions = points.positions[points.valid].double()
    normals = rotate(points.frames[points.valid].double(), torch.tensor([0.0, 0, 1], dtype=torch.float64))
    first, second = torch.triu_indices(len(positions), len(positions), 1)
    apart = positions[second] - positions[first]
    distance = apart.norm(dim=-1).clamp(min=1e-12)
    direction = apart / distance[:, None]
    cosines = [
        (normals[first] * direction).sum(-1),
        (normals[second] * direction).sum(-1),
        (normals[first] * normals[second]).sum(-1),
    ]
    angles = [cosine.clamp(-1, 1).acos() / torch.pi for cosine in cosines]
    # The order of a pair is arbitrary: of its two readings, take the one whose first angle is smaller.
    swapped = 1 - angles[1] < angles[0]
    one = torch.where(swapped, 1 - angles[1], angles[0])
    two = torch.where(swapped, 1 - angles[0], angles[1])
    features = torch.stack([distance / distance.max(), one, two, angles[2]], -1).numpy()
    return _roots(np.histogramdd(features, _BINS, [(0, 1)] * 4)[0])


def _roots(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.sqrt(counts.ravel() / counts.sum()))
