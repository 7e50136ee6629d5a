"""What the readers of a cloud have in common: four neighbourhoods, then the whole cloud and a summary of it."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .reading import nearest_points
from .registry import check_at_most
from .upright_edges import SEEN, pool_edges

_REACH = (0.15, 0.3, 0.45, 0.8)
_SUMMARY = 256


@dataclass(frozen=True)
class ReaderSize:
    """How much a reader reads and computes.

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
        check_at_most(self, points=20_000)
        limits = {"centres": 4096, "neighbours": 256, "widths": 65_536}
        for name, most in limits.items():
            if not 1 <= min(getattr(self, name)) <= max(getattr(self, name)) <= most:
                raise ValueError(f"{name} is {getattr(self, name)}; each number must be from 1 to {most:,}")
        if not self.points >= self.centres[0] >= self.centres[1]:
            raise ValueError(f"centres is {self.centres} of {self.points} points; each may be at most the one before")


class _Neighbourhood(nn.Module):
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
    """

    def __init__(self, size: ReaderSize, own: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.size = size
        first, edge, point, wide_edge, wide_point, whole = size.widths
        self.first = nn.Linear(own, first, bias=False)
        self.first_normalised = nn.BatchNorm1d(first)
        widths = ((first, edge, point), (point, point, point), (point, wide_edge, wide_point), (wide_point,) * 3)
        self.neighbourhoods = nn.ModuleList(_Neighbourhood(*w, reach=r) for w, r in zip(widths, _REACH, strict=True))
        self.whole = nn.Linear(wide_point + own, whole, bias=False)
        self.whole_normalised = nn.BatchNorm1d(whole)
        self.summary = nn.Linear(2 * whole, _SUMMARY, bias=False)
        self.summary_normalised = nn.BatchNorm1d(_SUMMARY)
        self.dropout = nn.Dropout(dropout)
        self.classes = nn.Linear(_SUMMARY, classes)

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
