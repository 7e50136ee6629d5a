"""SHOT frames (Tombari, Salti & Di Stefano 2010): axes of a distance-weighted covariance, signs by majority."""

from __future__ import annotations

import numpy as np

from qecnet.geometry._support import Array, Centred
from qecnet.geometry.neighbours import within
from qecnet.geometry.normals import GAP, SIGN

_FEWEST = 5
_LEVEL = 3e-5


def shot_axes(cloud: Centred, queries: Array, radius: float) -> tuple[Array, Array, Array]:
    """x (M, 3), z (M, 3) and valid (M,) for centred queries (M, 3).

    The covariance is about the place itself, each neighbour weighted by how far it is from the rim. x is its largest
    axis, z its smallest, each on the side where most neighbours are; neighbours level with the place have no vote,
    and a drawn vote goes to the side of the cloud's centre.
    """
    near, mask = within(cloud.points, queries, radius)
    offsets = cloud.points[near] - queries[:, None]
    distances = np.sqrt(np.square(offsets).sum(-1))
    voters = mask & (distances > 0)
    weights = np.where(voters, radius - distances, 0)
    total = weights.sum(1)
    scatter = np.einsum("mk,mki,mkj->mij", weights, offsets, offsets)
    values, vectors = np.linalg.eigh(scatter / np.where(total > 0, total, 1)[:, None, None])

    apart = np.diff(values, axis=1).min(1) > GAP * values[:, 2]
    enough = voters.sum(1) >= _FEWEST
    x, x_signed = _majority(vectors[:, :, 2], offsets, voters, queries, _LEVEL * radius)
    z, z_signed = _majority(vectors[:, :, 0], offsets, voters, queries, _LEVEL * radius)
    return x, z, apart & enough & x_signed & z_signed


def _majority(axes: Array, offsets: Array, voters: Array, queries: Array, level: float) -> tuple[Array, Array]:
    """(M, 3) axes with their sign, and whether (M,) anything decided it."""
    along = np.einsum("mki,mi->mk", offsets, axes)
    votes = (voters & (along > level)).sum(1) - (voters & (along < -level)).sum(1)
    to_centre = -(queries * axes).sum(1)
    decided = (votes != 0) | (np.abs(to_centre) > SIGN)
    return np.sign(np.where(votes != 0, votes, to_centre))[:, None] * axes, decided
