"""Reads a cloud from a pose whose z axis is taken for up: is this upright, what is it, and which way does it face?

Neighbourhoods are seen from the up direction (`pool_edges`), so that the azimuth of the pose changes neither the class
nor the score; the azimuth that is found rotates with the cloud.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..algebra import to_matrix
from .azimuth import HARMONICS, add_votes, complex_product
from .reading import nearest_points
from .registry import check_at_most
from .upright_edges import SEEN, level_part, pool_edges

_OWN = 7
"""What is known of a point by itself, from an up direction."""

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


class UprightReading(NamedTuple):
    """What a reader finds for each of R rows, a cloud and a pose.

    Attributes:
        upright: (R,) score of the up direction; larger is more likely.
        scores: (R, C), of the classes.
        harmonics: (R, 3, 2), of the azimuth relative to the pose, see `azimuth`; zeros from a reader that does not find
            it.
        summary: (R, 256).
        offset: (R, 3), from the centre of the points to that of the whole shape, in the cloud's coordinates, and
            growth: (R,), the logarithm of the whole shape's radius; zeros from a reader that does not find them.
    """

    upright: Tensor
    scores: Tensor
    harmonics: Tensor
    summary: Tensor
    offset: Tensor
    growth: Tensor


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
        """up (R, 3), points (R, N, ·), neighbours (R, M, K) → (R, M, F)."""
        rows, centres = up.shape[0], neighbours.shape[1]
        carried = self.carried(features)
        pooled = pool_edges(up, positions, normals, neighbours, carried, self.seen, self.reach).flatten(0, 1)
        own = self.own(features[:, :centres].flatten(0, 1))
        found = self.mixed(self.pooled(pooled).relu()) + own
        result: Tensor = self.normalised(found).relu().view(rows, centres, -1)
        return result


class UprightReader(nn.Module):
    """Four neighbourhoods, the whole cloud, and what follows from it.

    Args:
        size: see `ReaderSize`.
        classes: C.
        dropout: of the summary, in training.
        facing: whether it finds the azimuth, and the centre and size of the whole shape.
    """

    def __init__(self, size: ReaderSize, classes: int, dropout: float, facing: bool = True) -> None:
        super().__init__()
        self.size = size
        first, edge, point, wide_edge, wide_point, whole = size.widths
        self.first = nn.Linear(_OWN, first, bias=False)
        self.first_normalised = nn.BatchNorm1d(first)
        widths = ((first, edge, point), (point, point, point), (point, wide_edge, wide_point), (wide_point,) * 3)
        self.neighbourhoods = nn.ModuleList(_Neighbourhood(*w, reach=r) for w, r in zip(widths, _REACH, strict=True))
        self.whole = nn.Linear(wide_point + _OWN, whole, bias=False)
        self.whole_normalised = nn.BatchNorm1d(whole)
        self.summary = nn.Linear(2 * whole, _SUMMARY, bias=False)
        self.summary_normalised = nn.BatchNorm1d(_SUMMARY)
        self.dropout = nn.Dropout(dropout)
        self.classes = nn.Linear(_SUMMARY, classes)
        self.upright = nn.Linear(_SUMMARY, 1)
        self.azimuth = nn.Linear(whole, 4 * len(HARMONICS), bias=False) if facing else None
        self.level_offset = nn.Linear(whole, 4, bias=False) if facing else None
        self.height_growth = nn.Linear(_SUMMARY, 2) if facing else None
        for layer in (self.level_offset, self.height_growth):
            if layer is not None:  # at first, every cloud is a whole shape
                nn.init.zeros_(layer.weight)
        if self.height_growth is not None:
            nn.init.zeros_(self.height_growth.bias)

    def find_neighbours(self, positions: Tensor) -> tuple[Tensor, ...]:
        """Neighbours of each of the four, as indices of what the one before gives: (clouds, N, 3) → (clouds, M, K)."""
        many, few = (positions[:, :count] for count in self.size.centres)
        positions = positions[:, : self.size.points]
        pairs = ((many, positions), (many, many), (few, many), (few, few))
        sizes = zip(pairs, self.size.neighbours, strict=True)
        return tuple(nearest_points(a, b, min(count, b.shape[1])) for (a, b), count in sizes)

    def forward(
        self, positions: Tensor, normals: Tensor, poses: Tensor, neighbours: tuple[Tensor, ...]
    ) -> UprightReading:
        """Read each row.

        Args:
            positions: (R, N, 3), centred, of radius 1, the first ones spread over the cloud; or (1, N, 3) for one cloud
                that is read from all poses.
            normals: of the same shape, unit, or zero where unknown.
            poses: (R, 4) WXYZ, the z axis up.
            neighbours: of each cloud, see `find_neighbours`.
        """
        positions, normals = positions[:, : self.size.points], normals[:, : self.size.points]
        rows, points = poses.shape[0], positions.shape[1]
        with torch.no_grad():
            axes = to_matrix(poses).mT
            up = axes[:, 2]
            own, arrows = _look(positions, normals, axes)
        features = self.first_normalised(self.first(own).flatten(0, 1)).relu().view(rows, points, -1)
        for neighbourhood, around in zip(self.neighbourhoods, neighbours, strict=True):
            features = neighbourhood(up, positions, normals, features, around)
            positions, normals = positions[:, : around.shape[1]], normals[:, : around.shape[1]]
        count = features.shape[1]
        whole = self.whole(torch.cat((features, own[:, :count]), -1))
        whole = self.whole_normalised(whole.flatten(0, 1)).relu().view_as(whole)
        found = self.summary(torch.cat((whole.amax(1), whole.mean(1)), -1))
        summary = self.dropout(self.summary_normalised(found).relu())
        harmonics, offset, growth = (whole.new_zeros(rows, *s) for s in ((len(HARMONICS), 2), (3,), ()))
        if self.azimuth is not None and self.level_offset is not None and self.height_growth is not None:
            arrows = arrows[:, :count]
            weights = self.azimuth(whole).view(rows, count, len(HARMONICS), 2, 2)
            harmonics = add_votes(weights, arrows)
            level = complex_product(self.level_offset(whole).view_as(arrows), arrows).sum(-2).mean(1)
            height, growth = self.height_growth(summary).unbind(-1)
            offset = (torch.cat((level, height[:, None]), -1)[..., None] * axes).sum(1)
        return UprightReading(self.upright(summary)[:, 0], self.classes(summary), harmonics, summary, offset, growth)


def _look(positions: Tensor, normals: Tensor, axes: Tensor) -> tuple[Tensor, Tensor]:
    """What is known of each point by itself (R, N, 7), and two arrows (R, N, 2, 2) in the plane across up."""
    up = axes[:, 2, None]
    away, level = level_part(positions, up), level_part(normals, up)
    height, slope = (positions * up).sum(-1, keepdim=True), (normals * up).sum(-1, keepdim=True)
    radius = away.norm(dim=-1, keepdim=True)
    outward = away / radius.clamp_min(0.05)
    around = (torch.linalg.cross(outward, level) * up).sum(-1, keepdim=True)
    facing = (outward * level).sum(-1, keepdim=True)
    lengths = (positions.norm(dim=-1, keepdim=True).expand_as(radius), slope, level.norm(dim=-1, keepdim=True))
    arrows = (torch.stack((outward, level), -2)[..., None, :] * axes[:, None, None, :2]).sum(-1)
    return torch.cat((height, radius, *lengths, facing, around), -1), arrows
