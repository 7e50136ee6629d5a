"""Corruptions of real scans at measured levels: fewer frames and points, noise, outliers, occlusion, uneven density."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from qecnet.datasets import ViewConfig, crop, jitter, sample_view
from qecnet.evaluation.results import CorruptionKind
from qecnet.geometry import OrientedPoints, PointCloud, random_points

_FEWEST_POINTS = 16


@dataclass(frozen=True)
class Corruption:
    """One kind of corruption at one level.

    Attributes:
        kind: "frames", "points", "noise", "outliers", "occlusion", "viewpoint" or "density".
        level: what it means depends on the kind:

            - frames: the share of local reference frames that is kept (the paper's Table 3).
            - points: how many points are kept (LRF-2K, LRF-1K of that table).
            - noise: the standard deviation of normal noise, in radii of the cloud.
            - outliers: the share of points that are moved to a random position in the ball around the shape.
            - occlusion: the share of points that a plane of random direction cuts off.
            - viewpoint: the camera's distance in radii; points that are hidden from it are removed.
            - density: points are kept with a probability that falls along a random direction to e to minus this.
    """

    kind: CorruptionKind
    level: float

    def corrupt_points(self, cloud: PointCloud, generator: torch.Generator) -> PointCloud:
        """Corrupt the points of a cloud; "frames" leaves them as they are, see `corrupt_frames`.

        Args:
            cloud: the points.
            generator: the source of randomness.

        Returns:
            The corrupted cloud.
        """
        points = cloud.points
        radius = (points - points.mean(0)).norm(dim=-1).amax()
        if self.kind == "points":
            points = points[random_points(points, min(len(points), round(self.level)), generator)]
        elif self.kind == "noise":
            points = jitter(points, generator, float(self.level * radius), float(5 * self.level * radius))
        elif self.kind == "outliers":
            points = _move_outliers(points, self.level, radius, generator)
        elif self.kind == "occlusion":
            points = crop(points, generator, self.level)
        elif self.kind == "viewpoint":
            camera = ViewConfig(distance=(self.level, self.level), pixels=0, noise=0.0, grazing=0.0)
            return sample_view(cloud, generator, camera).cloud
        elif self.kind == "density":
            points = _thin(points, self.level, generator)
        return replace(cloud, points=points)

    def corrupt_frames(self, points: OrientedPoints, generator: torch.Generator) -> OrientedPoints:
        """Mark all but a random share of the frames as invalid, for "frames"; other kinds change nothing here.

        Args:
            points: one cloud with its frames.
            generator: the source of randomness.

        Returns:
            The cloud with fewer valid frames.
        """
        if self.kind != "frames":
            return points
        kept = torch.zeros_like(points.valid)
        kept[torch.randperm(len(kept), generator=generator)[: max(1, round(self.level * len(kept)))]] = True
        return replace(points, valid=points.valid & kept)


CORRUPTIONS: tuple[Corruption, ...] = (
    *(Corruption("frames", level) for level in (0.5, 0.66, 0.75, 1.0)),
    *(Corruption("points", level) for level in (2000, 1000, 500)),
    *(Corruption("noise", level) for level in (0.005, 0.01, 0.02, 0.05)),
    *(Corruption("outliers", level) for level in (0.01, 0.05, 0.1)),
    *(Corruption("occlusion", level) for level in (0.1, 0.25, 0.5)),
    Corruption("viewpoint", 3.0),
    *(Corruption("density", level) for level in (1.0, 2.0, 4.0)),
)
"""What the robustness table measures; all frames is the row to compare the others with."""


def _move_outliers(points: Tensor, share: float, radius: Tensor, generator: torch.Generator) -> Tensor:
    moved = torch.randperm(len(points), generator=generator)[: round(share * len(points))]
    directions = torch.nn.functional.normalize(torch.randn(len(moved), 3, generator=generator), dim=-1)
    distances = radius * torch.rand(len(moved), 1, generator=generator) ** (1 / 3)
    corrupted = points.clone()
    corrupted[moved] = (points.mean(0) + directions * distances).to(points)
    return corrupted


def _thin(points: Tensor, strength: float, generator: torch.Generator) -> Tensor:
    direction = torch.nn.functional.normalize(torch.randn(3, generator=generator), dim=0).to(points)
    along = points @ direction
    along = (along - along.amin()) / (along.amax() - along.amin()).clamp_min(1e-12)
    kept = torch.rand(len(points), generator=generator) < torch.exp(-strength * along)
    return points[kept] if kept.sum() >= _FEWEST_POINTS else points[:_FEWEST_POINTS]
