"""SHOT frames (Tombari, Salti & Di Stefano 2010): axes of a distance-weighted covariance, signs by majority."""

from __future__ import annotations

import numpy as np

from qecnet.geometry._neighbours import pairs_within
from qecnet.geometry._support import LEVEL, Array, Centred
from qecnet.geometry.normals import GAP, SIGN

_FEWEST = 5


def shot_axes(cloud: Centred, queries: Array, radius: float) -> tuple[Array, Array, Array]:
    """x (M, 3), z (M, 3) and valid (M,) for centred queries (M, 3).

    The covariance is about the query itself; a neighbour's weight is the radius minus its distance. x is its largest
    axis, z its smallest, each on the side where most neighbours are; neighbours level with the query do not count, and
    a tie goes to the side of the cloud's centre.
    """
    rows, near, distances = pairs_within(cloud.tree, queries, radius)
    others = distances > 0
    rows, near, weights = rows[others], near[others], radius - distances[others]
    offsets = cloud.points[near] - queries[rows]
    scatter = np.zeros((len(queries), 3, 3))
    for i in range(3):
        for j in range(3):
            scatter[:, i, j] = np.bincount(rows, weights * offsets[:, i] * offsets[:, j], len(queries))
    values, vectors = np.linalg.eigh(scatter)

    apart = np.diff(values, axis=1).min(1) > GAP * values[:, 2]
    enough = np.bincount(rows, minlength=len(queries)) >= _FEWEST
    x, x_decided = _majority(vectors[:, :, 2], rows, offsets, queries, LEVEL * radius)
    z, z_decided = _majority(vectors[:, :, 0], rows, offsets, queries, LEVEL * radius)
    return x, z, apart & enough & x_decided & z_decided


def _majority(axes: Array, rows: Array, offsets: Array, queries: Array, level: float) -> tuple[Array, Array]:
    """(M, 3) axes with their sign, and whether (M,) the sign is determined."""
    along = (offsets * axes[rows]).sum(1)
    votes = np.bincount(rows, np.where(np.abs(along) > level, np.sign(along), 0), len(queries))
    to_centre = -(queries * axes).sum(1)
    decided = (votes != 0) | (np.abs(to_centre) > SIGN)
    return np.sign(np.where(votes != 0, votes, to_centre))[:, None] * axes, decided
