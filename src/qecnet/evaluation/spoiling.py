"""What real scans suffer from, in measured doses: fewer points and patches, noise, outliers, occlusion, density."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from qecnet.datasets import crop, jitter, single_view
from qecnet.geometry import PointCloud, Prepared, random_points

Kind = Literal["patches", "points", "noise", "outliers", "occlusion", "viewpoint", "density"]

_FEWEST = 16


@dataclass(frozen=True)
class Spoiling:
    """One kind of damage and how much of it.

    - patches: the share of patches that is kept (the paper's Table 3).
    - points: how many points are kept (LRF-2K, LRF-1K of that table).
    - noise: the standard deviation of normal noise, in radii of the cloud.
    - outliers: the share of points that are moved to anywhere in the ball around the shape.
    - occlusion: the share that a plane of random direction cuts off.
    - viewpoint: how far the eye is, in radii, that sees only what is not hidden from it.
    - density: points are kept with a chance that falls along a random direction by e to minus this, end to end.
    """

    kind: Kind
    level: float

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind is {self.kind!r}; it must be one of {', '.join(get_args(Kind))}")

    def of_cloud(self, cloud: PointCloud, generator: torch.Generator) -> PointCloud:
        """The cloud with the damage done; "patches" leaves it as it is, see `fewer_patches`."""
        points = cloud.points
        radius = (points - points.mean(0)).norm(dim=-1).amax()
        if self.kind == "points":
            points = points[random_points(points, min(len(points), round(self.level)), generator)]
        elif self.kind == "noise":
            points = jitter(points, generator, float(self.level * radius), float(5 * self.level * radius))
        elif self.kind == "outliers":
            points = _with_outliers(points, self.level, radius, generator)
        elif self.kind == "occlusion":
            points = crop(points, generator, self.level)
        elif self.kind == "viewpoint":
            points = single_view(points, generator, self.level)
        elif self.kind == "density":
            points = _thinned(points, self.level, generator)
        return replace(cloud, points=points)


LEVELS: tuple[Spoiling, ...] = (
    *(Spoiling("patches", level) for level in (0.5, 0.66, 0.75, 1.0)),
    *(Spoiling("points", level) for level in (2000, 1000, 500)),
    *(Spoiling("noise", level) for level in (0.005, 0.01, 0.02, 0.05)),
    *(Spoiling("outliers", level) for level in (0.01, 0.05, 0.1)),
    *(Spoiling("occlusion", level) for level in (0.1, 0.25, 0.5)),
    Spoiling("viewpoint", 3.0),
    *(Spoiling("density", level) for level in (1.0, 2.0, 4.0)),
)
"""What the robustness table measures; all patches is the row to compare the others with."""


def fewer_patches(prepared: Prepared, share: float, generator: torch.Generator) -> Prepared:
    """Patch-wise dropout: each patch that is not among a random `share` loses all of its frames."""
    count = max(1, round(share * len(prepared.mask)))
    kept = torch.zeros(len(prepared.mask), dtype=torch.bool)
    kept[torch.randperm(len(kept), generator=generator)[:count]] = True
    return replace(prepared, mask=prepared.mask & kept[:, None])


def _with_outliers(points: Tensor, share: float, radius: Tensor, generator: torch.Generator) -> Tensor:
    moved = torch.randperm(len(points), generator=generator)[: round(share * len(points))]
    directions = torch.nn.functional.normalize(torch.randn(len(moved), 3, generator=generator), dim=-1)
    distances = radius * torch.rand(len(moved), 1, generator=generator) ** (1 / 3)
    spoiled = points.clone()
    spoiled[moved] = (points.mean(0) + directions * distances).to(points)
    return spoiled


def _thinned(points: Tensor, strength: float, generator: torch.Generator) -> Tensor:
    direction = torch.nn.functional.normalize(torch.randn(3, generator=generator), dim=0).to(points)
    along = points @ direction
    along = (along - along.amin()) / (along.amax() - along.amin()).clamp_min(1e-12)
    kept = torch.rand(len(points), generator=generator) < torch.exp(-strength * along)
    return points[kept] if kept.sum() >= _FEWEST else points[:_FEWEST]
