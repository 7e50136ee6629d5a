"""PRIN (You et al., AAAI 2020): a cloud in spherical voxels, convolved on SO(3), and read again at its points.

Adaptive sampling: each direction of a grid takes the points within a cone of constant solid angle, so that the poles
of the grid see no more of them than its equator, and each shell those near its radius. Shells are channels. The last
axis of the grid of SO(3) is the radius, where the features are read again. A small PointNet then classifies them; its
widths are chosen for the number of parameters in Table 1.
"""

import math

import torch
from benchmarks.baselines.base import Baseline
from benchmarks.baselines.layers import largest, perceptron
from benchmarks.baselines.sphere import GridActivation, RotationCorrelation, SphereCorrelation, sphere_grid
from benchmarks.baselines.spherical_cnn import SphericalConfig
from torch import Tensor, nn
from torch.nn.functional import grid_sample

from qecnet.nn import NetworkConfig


def fill_voxels(points: Tensor, present: Tensor, directions: Tensor, shells: int, cone: float) -> Tensor:
    """Sample clouds on spherical voxels.

    Args:
        points: (B, N, 3), of radius at most 1, and present: (B, N) bool.
        directions: (G, 3), unit.
        shells: S, their number between the centre and radius 1.
        cone: radians from a direction within which points count.

    Returns:
        (B, S, G): the mean over the points in the cone and next to the shell of how near each is to it, 0 to 1.
    """
    points = torch.where(present[..., None], points, 0.0)
    radius = points.norm(dim=-1)
    inside = (points @ directions.T > math.cos(cone) * radius[..., None]) & present[..., None]
    middle = (torch.arange(shells, dtype=points.dtype, device=points.device) + 0.5) / shells
    near = (1 - shells * (radius[..., None] - middle).abs()).clamp_min(0)
    inside, near = inside.to(points).transpose(1, 2), near * present[..., None]
    mean: Tensor = (inside @ near) / (inside @ (near > 0).to(points)).clamp_min(1)
    return mean.transpose(1, 2)


class PRIN(Baseline):
    """Convolutions are equivariant as far as the grids resolve the signals; where features are read is not."""

    compact = SphericalConfig(classes=40, frames=512, width=0.4, reads=256, bands=(8, 5, 4))
    class_bias = "head.4.bias"

    def __init__(self, config: NetworkConfig) -> None:
        assert isinstance(config, SphericalConfig)
        super().__init__(config)
        self.bands = config.bands
        b0, b1, b2 = config.bands
        self.shells, *widths = config.scale(64, 40, 40, 40)
        self.sphere = SphereCorrelation(self.shells, widths[0], 2 * b0, b1)
        self.first = GridActivation(widths[0], b1, b1)
        self.second = RotationCorrelation(widths[0], widths[1], 2 * b1, b1)
        self.middle = GridActivation(widths[1], b1, b2)
        self.third = RotationCorrelation(widths[1], widths[2], 2 * b1, b2)
        self.last = GridActivation(widths[2], b2, b2)
        point, cloud, *hidden = config.scale(256, 1024, 512, 256)
        self.points = perceptron(widths[2], point, cloud)
        self.head = nn.Sequential(
            perceptron(cloud, hidden[0]),
            nn.Dropout(0.3),
            perceptron(*hidden),
            nn.Dropout(0.3),
            nn.Linear(hidden[1], config.classes),
        )

    def scores(self, points: Tensor, normals: Tensor, present: Tensor) -> Tensor:
        directions, fit = (x.to(points) for x in sphere_grid(*self.bands[:2]))
        voxels = fill_voxels(points, present, directions, self.shells, math.pi / self.bands[0])
        signal = self.second(self.first(self.sphere(voxels @ fit)))
        values = self.last.values(self.third(self.middle(signal)))
        return self.head(largest(self.points(_read(values, points, self.bands[2], present)), present))  # type: ignore[no-any-return]


def _read(values: Tensor, points: Tensor, band: int, present: Tensor) -> Tensor:
    """Interpolate values (B, C, P) on the grid of SO(3) at points: two angles, and the radius. → (R, C)"""
    points = torch.where(present[..., None], points, 0.0)
    x, y, z = points.unbind(-1)
    radius = points.norm(dim=-1)
    beta = torch.atan2(torch.hypot(x, z), y)
    alpha = torch.atan2(x, z) % (2 * math.pi)
    # The grid has beta, alpha and the radius on its axes; the last coordinate is the first axis.
    places = torch.stack((2 * radius - 1, alpha / math.pi + 0.5 / band - 1, 2 * beta / math.pi - 1), -1)
    grid = values.unflatten(-1, (2 * band, 2 * band, 2 * band))
    found = grid_sample(grid, places[:, :, None, None], padding_mode="border", align_corners=False)
    return found[..., 0, 0].transpose(1, 2)[present]
