"""A tensor field network (Thomas et al. 2018): features of every degree l, convolved with spherical harmonics.

Features are {l: (R, C, 2l + 1)}. A convolution multiplies a neighbour's features with a learned function of distance
and with the spherical harmonics of its direction, and couples them by Clebsch-Gordan coefficients: all of it rotates
with the cloud. Harmonics and coefficients are e3nn's.

The original has as many centres as points and does not pool; this one takes fewer centres in each layer, so that it can
be trained on a processor. Its paper gives no number of parameters.
"""

import math
from functools import cache

import torch
from benchmarks.baselines.base import Baseline, BaselineConfig
from benchmarks.baselines.layers import head, mean, nearest, padded, pick
from torch import Tensor, nn

HIGHEST = 2
"""The highest l of features and filters."""
Features = dict[int, Tensor]


@cache
def coupling(filter_l: int, before: int, after: int) -> Tensor:
    """Wigner's 3j symbols (2f + 1, 2b + 1, 2a + 1), float64, scaled to keep the variance of random features."""
    from e3nn import o3

    with torch.inference_mode(False), torch.device("cpu"):
        symbols: Tensor = o3.wigner_3j(filter_l, before, after, dtype=torch.float64)
    return symbols * math.sqrt(2 * after + 1)


def harmonics(directions: Tensor) -> list[Tensor]:
    """Real spherical harmonics of unit vectors (..., 3): one (..., 2l + 1) for each l up to `HIGHEST`."""
    from e3nn import o3

    return [
        o3.spherical_harmonics(degree, directions, normalize=False, normalization="component")
        for degree in range(HIGHEST + 1)
    ]


def paths(ls: list[int]) -> list[tuple[int, int, int]]:
    """All (filter, before, after) whose l fulfil the triangle rule and whose parity is that of harmonics."""
    every = range(HIGHEST + 1)
    return [(f, b, a) for f in every for b in ls for a in every if abs(f - b) <= a <= f + b and (f + b + a) % 2 == 0]


class FieldConv(nn.Module):
    """Point convolution, self-interaction and nonlinearity, from points to the first `centres` of them (section 4)."""

    def __init__(self, ls: list[int], before: int, after: int, centres: int, neighbours: int) -> None:
        super().__init__()
        self.centres, self.neighbours, self.paths = centres, neighbours, paths(ls)
        self.shells = 8
        self.radial = nn.Sequential(
            nn.Linear(self.shells, 32), nn.SiLU(), nn.Linear(32, len(self.paths) * before, bias=False)
        )
        arriving = [sum(a == degree for _, _, a in self.paths) for degree in range(HIGHEST + 1)]
        self.mix = nn.ModuleList(nn.Linear(count * before, after, bias=False) for count in arriving)
        self.lengths = nn.ModuleList(nn.BatchNorm1d(after) for _ in range(HIGHEST + 1))

    def forward(self, points: Tensor, present: Tensor, rows: Features) -> tuple[Tensor, Tensor, Features]:
        """Points (B, N, 3), present (B, N), features of present points → the same of the centres alone."""
        few = present[:, : self.centres]
        index = nearest(points, present, self.centres, self.neighbours)
        offsets = pick(points, index) - points[:, : self.centres][few][:, None]
        square = offsets.square().sum(-1)
        # A point has no direction to itself; there, only the harmonic of degree = 0 counts.
        apart = square > 0
        distance = torch.where(apart, square, 1.0).sqrt()
        scale = distance.amax(1, keepdim=True)
        shells = torch.linspace(0, 1, self.shells, dtype=points.dtype, device=points.device)
        near = torch.where(apart, distance / scale, 0.0)[..., None]
        weights = self.radial(torch.exp(-(((near - shells) * self.shells) ** 2))).unflatten(-1, (len(self.paths), -1))
        angular = harmonics(offsets / distance[..., None])
        angular = [angular[0], *(y * apart[..., None] for y in angular[1:])]
        theirs = {
            degree: pick(padded(x.flatten(1), present), index).unflatten(-1, x.shape[1:]) for degree, x in rows.items()
        }
        found: dict[int, list[Tensor]] = {degree: [] for degree in range(HIGHEST + 1)}
        for number, (f, b, a) in enumerate(self.paths):
            # First the filter of each neighbour, then the sum over neighbours: (R, C, 2a + 1).
            kernel = torch.einsum("rkf,fba->rkba", angular[f], coupling(f, b, a).to(points))
            weighted = weights[:, :, number, :, None] * theirs[b]
            found[a].append(torch.einsum("rkcb,rkba->rca", weighted, kernel) / index.shape[1])
        mixed = {
            degree: self.mix[degree](torch.cat(parts, 1).transpose(1, 2)).transpose(1, 2)
            for degree, parts in found.items()
        }
        return points[:, : self.centres], few, {degree: self._activate(degree, x) for degree, x in mixed.items()}

    def _activate(self, degree: int, rows: Tensor) -> Tensor:
        """Normalise and rectify: scalars themselves, the others by their length."""
        if degree == 0:
            return torch.nn.functional.silu(self.lengths[0](rows[..., 0]))[..., None]
        length = rows.square().sum(-1).add(1e-12).sqrt()
        return rows * (torch.relu(self.lengths[degree](length)) / length)[..., None]


class TensorFieldNetwork(Baseline):
    """Invariant up to rounding, which may exchange neighbours that are equally far."""

    compact = BaselineConfig(classes=40, frames=512, width=0.5, reads=256)

    def __init__(self, config: BaselineConfig) -> None:
        super().__init__(config)
        widths = config.scale(32, 64, 128)
        sizes = [(max(1, config.reads // share), 16) for share in (2, 8, 32)]
        ls = [[0], *([*range(HIGHEST + 1)] for _ in widths[1:])]
        self.levels = nn.ModuleList(
            FieldConv(which, before, after, *size)
            for which, before, after, size in zip(ls, (1, *widths), widths, sizes, strict=False)
        )
        self.head = head((HIGHEST + 1) * widths[-1], config.classes)

    def scores(self, points: Tensor, normals: Tensor, present: Tensor) -> Tensor:
        rows: Features = {0: points.new_ones(int(present.sum()), 1, 1)}
        for level in self.levels:
            points, present, rows = level(points, present, rows)
        lengths = [x.square().sum(-1).add(1e-12).sqrt() if degree else x[..., 0] for degree, x in rows.items()]
        return self.head(mean(torch.cat(lengths, -1), present))  # type: ignore[no-any-return]
