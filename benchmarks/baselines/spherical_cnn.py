"""A spherical CNN (Cohen et al., ICLR 2018): what rays from all sides hit, correlated on the sphere and on SO(3).

Rays go to the centre from 2b × 2b directions. A ray hits the balls around the points, of three sizes, and the signal is
how far from the centre it hits the first and the last: six channels, as the paper's three of a mesh and three of its
convex hull.
"""

from dataclasses import dataclass

import torch
from benchmarks.baselines.base import Baseline, BaselineConfig
from benchmarks.baselines.sphere import (
    GridActivation,
    RotationCorrelation,
    SphereCorrelation,
    grid_mean,
    sphere_grid,
)
from torch import Tensor, nn

from qecnet.nn import NetworkConfig

RADII = (0.06, 0.12, 0.24)
"""Of the balls, where the cloud's radius is 1."""


@dataclass(frozen=True)
class SphericalConfig(BaselineConfig):
    """The configuration of a network on grids of the sphere and of SO(3).

    Attributes:
        bands: of the signal on the sphere and of the two on SO(3), which do not grow; degrees are below the band.
    """

    bands: tuple[int, int, int] = (64, 16, 10)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 64 >= self.bands[0] >= self.bands[1] >= self.bands[2] >= 1:
            raise ValueError(f"bands are {self.bands}; they must be at most 64, at least 1, and must not grow")


def cast_rays(points: Tensor, present: Tensor, directions: Tensor, radius: float) -> tuple[Tensor, Tensor]:
    """How far from the centre rays towards it enter and leave the balls around points.

    Args:
        points: (B, N, 3), and present: (B, N) bool.
        directions: (G, 3), unit: where rays come from.
        radius: of the balls.

    Returns:
        The largest and the smallest distance from the centre of the balls' surfaces on each ray, (B, G); 0 without any.
    """
    along = torch.where(present[..., None], points, 0.0) @ directions.T
    aside = torch.where(present[..., None], points, 0.0).square().sum(-1, keepdim=True) - along.square()
    half = radius**2 - aside
    hit = (half > 0) & (along > 0) & present[..., None]
    half = half.clamp_min(0).sqrt()
    first = torch.where(hit, along + half, 0.0).amax(1)
    last = torch.where(hit, (along - half).clamp_min(0), torch.inf).amin(1)
    return first, torch.where(last < torch.inf, last, 0.0)


class SphericalCNN(Baseline):
    """Invariant as far as the grids resolve the signals: correlations are exact, rays and rectifiers are not."""

    compact = SphericalConfig(classes=40, frames=512, width=0.32, reads=256, bands=(12, 6, 4))
    class_bias = "head.bias"

    def __init__(self, config: NetworkConfig) -> None:
        assert isinstance(config, SphericalConfig)
        super().__init__(config)
        self.bands = config.bands
        first, second = config.scale(100, 100)
        _, b1, b2 = config.bands
        self.sphere = SphereCorrelation(2 * len(RADII), first, 2 * config.bands[0], b1)
        self.activation = GridActivation(first, b1, b2)
        self.rotation = RotationCorrelation(first, second, 2 * b1, b2)
        self.last = GridActivation(second, b2, b2)
        self.head = nn.Linear(second, config.classes)

    def scores(self, points: Tensor, normals: Tensor, present: Tensor) -> Tensor:
        directions, fit = (x.to(points) for x in sphere_grid(*self.bands[:2]))
        hits = [hit for radius in RADII for hit in cast_rays(points, present, directions, radius)]
        signal = self.sphere(torch.stack(hits, 1) @ fit)
        values = self.last.values(self.rotation(self.activation(signal)))
        return self.head(grid_mean(values, self.bands[2]))  # type: ignore[no-any-return]
