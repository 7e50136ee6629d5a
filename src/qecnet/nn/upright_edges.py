"""Edges from points to their neighbours, seen from an up direction: nothing about them changes with the azimuth.

Where a local reference frame makes an edge invariant to all rotations, a known up direction makes it invariant to the
rotations about it and keeps what is above and below.
"""

import torch
from torch import Tensor

from ..algebra import is_exporting
from .fused import edges_fit, is_fused, pool_edges_fused
from .reading import gather_neighbours

SEEN = 14
"""How many numbers a centre sees of a neighbour."""


def pool_edges(
    up: Tensor, positions: Tensor, normals: Tensor, neighbours: Tensor, features: Tensor, weight: Tensor, reach: float
) -> Tensor:
    """A linear layer for each edge, and the maximum over the neighbours of each centre.

    Args:
        up: (rows, 1, 3) unit vectors, or (rows, M, 3) with one for each centre.
        positions: (rows, N, 3), or (1, N, 3) for one cloud that all rows see; the first M points are the centres.
        normals: of the same shape, unit, or zero where unknown.
        neighbours: (rows or 1, M, K) indices of points.
        features: (rows, N, H), of the points, added to what is seen of them.
        weight: (H, 14), of what is seen, see `see_neighbours`.
        reach: the length that distances are measured in.

    Returns:
        (rows, M, H). Only `features` and `weight` get a gradient.
    """
    rows, _, hidden = features.shape
    centres, count = neighbours.shape[1:]
    if edges_fit(count, hidden) and is_fused(up, positions, normals, features, weight):
        positions, normals, neighbours = (x.expand(rows, -1, -1) for x in (positions, normals, neighbours))
        return pool_edges_fused(up, positions, normals, neighbours, features, weight, reach)
    with torch.no_grad():
        seen = see_neighbours(up, positions, normals, neighbours, reach)
    # Neighbours come first in memory, and the maximum runs over the outermost axis.
    around = neighbours.transpose(1, 2).expand(rows, -1, -1).flatten(1)
    if is_exporting():
        carried = features.gather(1, around[..., None].expand(-1, -1, hidden))
        return (carried + seen.flatten(1, 2) @ weight.t()).view(rows, count, centres, hidden).amax(1)
    found = []
    for own, row, place in zip(seen, features, around, strict=True):
        edges = torch.addmm(row.index_select(0, place), own.view(-1, SEEN), weight.t())
        found.append(edges.view(count, centres, hidden).amax(0))
    return torch.stack(found)


def see_neighbours(up: Tensor, positions: Tensor, normals: Tensor, neighbours: Tensor, reach: float) -> Tensor:
    """What each centre sees of its neighbours, from an up direction.

    Args: see `pool_edges`.

    Returns:
        (rows, K, M, 14): the way to the neighbour along five axes of the centre (up; its normal's level part, and
        across that; away from the upright axis, and across that), the neighbour's normal along these and along the
        centre's normal, the distance and its level part, and the neighbour's normal along the way.
    """
    centres = neighbours.shape[1]
    place, normal = positions[:, :centres], normals[:, :centres]
    neighbours = neighbours.transpose(1, 2)
    here, own = place[:, None], normal[:, None]
    way = (gather_neighbours(positions, neighbours) - here) / reach
    theirs = gather_neighbours(normals, neighbours)
    # Everything is linear in up or a product of two such: (up × n) · d = up · (n × d).
    crosses = [torch.linalg.cross(axis.expand_as(to), to) for to in (way, theirs) for axis in (own, here)]
    rise, face, turn, swing, bank, yaw = (_along(vectors, up) for vectors in (way, theirs, *crosses))
    slope, height = _along(own, up), _along(here, up)
    facing, square = _dot(own, theirs), way.square().sum(-1)
    seen = (
        rise,
        _dot(own, way) - slope * rise,
        turn,
        _dot(here, way) - height * rise,
        swing,
        face,
        facing - slope * face,
        bank,
        _dot(here, theirs) - height * face,
        yaw,
        facing,
        square.sqrt(),
        (square - rise.square()).clamp_min(0).sqrt(),
        _dot(theirs, way),
    )
    return torch.stack([part.expand_as(rise) for part in seen], -1)


def level_part(vectors: Tensor, up: Tensor) -> Tensor:
    """What of vectors (..., 3) is across up (..., 3)."""
    return vectors - (vectors * up).sum(-1, keepdim=True) * up


def _along(vectors: Tensor, up: Tensor) -> Tensor:
    """Vectors (rows or 1, A, B, 3) along up (rows, 1 or B, 3): (rows, A, B)."""
    if vectors.shape[0] == 1 and up.shape[1] == 1:
        return (up[:, 0] @ vectors.reshape(-1, 3).t()).view(-1, *vectors.shape[1:-1])
    return (vectors * up[:, None]).sum(-1)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1)
