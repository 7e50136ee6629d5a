"""Reads a cloud from a pose whose z axis is taken as up: is it upright, of which class is it, and where does it face?

Neighbourhoods are seen from the up direction (`pool_edges`), so that the azimuth of the pose changes neither the class
nor the score; the azimuth that is found rotates with the cloud.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..algebra import to_matrix
from .azimuth import HARMONICS, add_votes, complex_product
from .edge_reader import EdgeReader, ReaderSize, level_part
from .summary_layer import SUMMARY_SIZE

_OWN = 7
"""What is known of a point by itself, from an up direction."""


class UprightReading(NamedTuple):
    """The output of a reader for each of R rows, a cloud and a pose.

    Attributes:
        upright: (R,) score of the up direction; larger is more likely.
        scores: (R, C), of the classes.
        harmonics: (R, 3, 2), of the azimuth relative to the pose, see `azimuth`; zeros from a reader that does not find
            it.
        summary: (R, 256).
        offset: (R, 3), from the centre of the points to that of the whole shape, in the cloud's coordinates.
        growth: (R,), the logarithm of the whole shape's radius; both are zeros from a reader that does not find them.
    """

    upright: Tensor
    scores: Tensor
    harmonics: Tensor
    summary: Tensor
    offset: Tensor
    growth: Tensor


class UprightReader(EdgeReader):
    """An `EdgeReader` that sees a cloud from poses, and what follows from its summary.

    Args:
        size: see `ReaderSize`.
        classes: C.
        dropout: of the summary, in training.
        rank: of the summary, see `summary_layer`.
        facing: whether it finds the azimuth, and the centre and size of the whole shape.
    """

    def __init__(self, size: ReaderSize, classes: int, dropout: float, rank: int = 0, facing: bool = True) -> None:
        super().__init__(size, _OWN, classes, dropout, rank)
        whole = self.whole.out_features
        self.upright = nn.Linear(SUMMARY_SIZE, 1)
        self.azimuth = nn.Linear(whole, 4 * len(HARMONICS), bias=False) if facing else None
        self.level_offset = nn.Linear(whole, 4, bias=False) if facing else None
        self.height_growth = nn.Linear(SUMMARY_SIZE, 2) if facing else None
        for layer in (self.level_offset, self.height_growth):
            if layer is not None:  # at first, every cloud is a whole shape
                nn.init.zeros_(layer.weight)
        if self.height_growth is not None:
            nn.init.zeros_(self.height_growth.bias)

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
        with torch.no_grad():
            axes = to_matrix(poses).mT
            own, arrows = _look(positions, normals, axes)
        found = self.read_neighbourhoods(axes[:, 2, None], own, positions, normals, neighbours)
        whole, summary = self.summarise(found)
        rows, count = whole.shape[:2]
        harmonics, offset, growth = (whole.new_zeros(rows, *s) for s in ((len(HARMONICS), 2), (3,), ()))
        if self.azimuth is not None and self.level_offset is not None and self.height_growth is not None:
            arrows = arrows[:, :count]
            weights = self.azimuth(whole).view(rows, count, len(HARMONICS), 2, 2)
            harmonics = add_votes(weights, arrows)
            level = complex_product(self.level_offset(whole).view_as(arrows), arrows).sum(-2).mean(1)
            height, growth = self.height_growth(summary).unbind(-1)
            offset = (torch.cat((level, height[:, None]), -1)[..., None] * axes).sum(1)
        return UprightReading(self.upright(summary)[:, 0], self.classes(summary), harmonics, summary, offset, growth)

    def read_one(self, positions: Tensor, normals: Tensor, poses: Tensor) -> UprightReading:
        """Read one cloud (1, N, 3) from several poses (R, 4)."""
        result: UprightReading = self(positions, normals, poses, self.find_neighbours(positions))
        return result

    def read_each(self, positions: Tensor, normals: Tensor, poses: Tensor) -> UprightReading:
        """Read each cloud (clouds, N, 3) from each of its poses (clouds, R, 4), one after the other."""
        count = poses.shape[1]
        positions, normals, *neighbours = (
            x[:, None].expand(-1, count, -1, -1).flatten(0, 1)
            for x in (positions, normals, *self.find_neighbours(positions))
        )
        result: UprightReading = self(positions, normals, poses.flatten(0, 1), tuple(neighbours))
        return result


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
