"""Shared by the readers of a cloud: edges to neighbours, four neighbourhoods, and a summary of the whole.

Edges are seen from an up direction, and nothing about them changes with the azimuth. Where a local reference frame
makes an edge invariant to all rotations, a known up direction makes it invariant to the rotations about it and keeps
what is above and below.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..algebra import is_exporting
from .field_limits import check_sizes
from .fused import edges_fit, is_fused, pool_edges_fused
from .reading import gather_neighbours, nearest_points
from .summary_layer import SUMMARY_SIZE, summary_layer

SEEN = 14
"""How many numbers a centre sees of a neighbour."""

_REACH = (0.15, 0.3, 0.45, 0.8)


@dataclass(frozen=True)
class ReaderSize:
    """The sizes of a reader.

    Attributes:
        points: the first points of a cloud that it reads.
        centres: of its first two and its last two neighbourhoods.
        neighbours: of a centre in each of the four.
        widths: of a point, of the edges and the features of the first two, the same of the last two, and of the whole.
    """

    points: int = 1024
    centres: tuple[int, int] = (256, 64)
    neighbours: tuple[int, int, int, int] = (24, 16, 24, 16)
    widths: tuple[int, int, int, int, int, int] = (32, 96, 128, 192, 256, 512)

    def __post_init__(self) -> None:
        check_sizes(self, points=20_000, centres=4096, neighbours=256, widths=65_536)
        if not self.points >= self.centres[0] >= self.centres[1]:
            raise ValueError(f"centres is {self.centres} of {self.points} points; each may be at most the one before")


class _EdgeLayer(nn.Module):
    """From the features of points to those of centres."""

    def __init__(self, given: int, hidden: int, features: int, reach: float) -> None:
        super().__init__()
        self.reach = reach
        self.seen = nn.Parameter(torch.empty(hidden, SEEN))
        nn.init.kaiming_uniform_(self.seen, a=5**0.5)
        self.carried = nn.Linear(given, hidden)
        self.pooled = nn.BatchNorm1d(hidden)
        self.mixed = nn.Linear(hidden, features, bias=False)
        self.own = nn.Linear(given, features, bias=False)
        self.normalised = nn.BatchNorm1d(features)

    def forward(self, up: Tensor, positions: Tensor, normals: Tensor, features: Tensor, neighbours: Tensor) -> Tensor:
        """up (R, 1 or M, 3), points (R, N, ·), neighbours (R, M, K) → (R, M, F)."""
        rows, centres = up.shape[0], neighbours.shape[1]
        carried = self.carried(features)
        pooled = pool_edges(up, positions, normals, neighbours, carried, self.seen, self.reach).flatten(0, 1)
        own = self.own(features[:, :centres].flatten(0, 1))
        found = self.mixed(self.pooled(pooled).relu()) + own
        result: Tensor = self.normalised(found).relu().view(rows, centres, -1)
        return result


class EdgeReader(nn.Module):
    """Four neighbourhoods, the whole cloud, and scores of its class.

    Args:
        size: see `ReaderSize`.
        own: number of values that are known of a point by itself.
        classes: C.
        dropout: of the summary, in training.
        rank: of the summary, see `summary_layer`.
    """

    def __init__(self, size: ReaderSize, own: int, classes: int, dropout: float, rank: int = 0) -> None:
        super().__init__()
        self.size = size
        first, edge, point, wide_edge, wide_point, whole = size.widths
        self.first = nn.Linear(own, first, bias=False)
        self.first_normalised = nn.BatchNorm1d(first)
        widths = ((first, edge, point), (point, point, point), (point, wide_edge, wide_point), (wide_point,) * 3)
        self.neighbourhoods = nn.ModuleList(_EdgeLayer(*w, reach=r) for w, r in zip(widths, _REACH, strict=True))
        self.whole = nn.Linear(wide_point + own, whole, bias=False)
        self.whole_normalised = nn.BatchNorm1d(whole)
        self.summary = summary_layer(2 * whole, rank)
        self.summary_normalised = nn.BatchNorm1d(SUMMARY_SIZE)
        self.dropout = nn.Dropout(dropout)
        self.classes = nn.Linear(SUMMARY_SIZE, classes)

    def find_neighbours(self, positions: Tensor) -> tuple[Tensor, ...]:
        """Neighbours of each of the four, as indices of what the one before gives: (clouds, N, 3) → (clouds, M, K)."""
        many, few = (positions[:, :count] for count in self.size.centres)
        positions = positions[:, : self.size.points]
        pairs = ((many, positions), (many, many), (few, many), (few, few))
        sizes = zip(pairs, self.size.neighbours, strict=True)
        return tuple(nearest_points(a, b, min(count, b.shape[1])) for (a, b), count in sizes)

    def read_neighbourhoods(
        self, up: Tensor, own: Tensor, positions: Tensor, normals: Tensor, neighbours: tuple[Tensor, ...]
    ) -> Tensor:
        """Read the cloud of each row, up to the last centres.

        Args:
            up: (R, 1, 3) unit vectors that edges are seen from, or (R, N, 3) with one for each point.
            own: (R, N, ·), what is known of each point by itself.
            positions: (R, N, 3), centred, of radius 1, the first ones spread over the cloud; or (1, N, 3) for one cloud
                that is read in all rows.
            normals: of the same shape, unit, or zero where unknown.
            neighbours: of each cloud, see `find_neighbours`.

        Returns:
            (R, M, ·), for `summarise`.
        """
        features = self.first_normalised(self.first(own).flatten(0, 1)).relu().view(*own.shape[:2], -1)
        for neighbourhood, around in zip(self.neighbourhoods, neighbours, strict=True):
            count = around.shape[1]
            features = neighbourhood(up[:, :count], positions, normals, features, around)
            positions, normals = positions[:, :count], normals[:, :count]
        found: Tensor = self.whole(torch.cat((features, own[:, : features.shape[1]]), -1))
        return found

    def summarise(self, whole: Tensor) -> tuple[Tensor, Tensor]:
        """Pool (R, M, ·) over the centres.

        Returns:
            Features of the centres, (R, M, ·), and the summary, (R, 256).
        """
        whole = self.whole_normalised(whole.flatten(0, 1)).relu().view_as(whole)
        found = self.summary(torch.cat((whole.amax(1), whole.mean(1)), -1))
        return whole, self.dropout(self.summary_normalised(found).relu())


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
    """Compute the components of vectors (..., 3) that are perpendicular to up (..., 3), which has length 1."""
    return vectors - (vectors * up).sum(-1, keepdim=True) * up


def _along(vectors: Tensor, up: Tensor) -> Tensor:
    """Vectors (rows or 1, A, B, 3) along up (rows, 1 or B, 3): (rows, A, B)."""
    if vectors.shape[0] == 1 and up.shape[1] == 1:
        return (up[:, 0] @ vectors.reshape(-1, 3).t()).view(-1, *vectors.shape[1:-1])
    return (vectors * up[:, None]).sum(-1)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1)
