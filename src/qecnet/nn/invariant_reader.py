"""Reads the class of a cloud from no pose: no rotation of the cloud changes what is found.

Every point takes the direction away from the centre of the cloud for up, and sees its neighbourhood from there.
"""

import torch
from torch import Tensor

from .edge_reader import EdgeReader, ReaderSize
from .upright_edges import level_part

_OWN = 3
"""What is known of a point by itself: its distance from the centre, and its normal along and across that direction."""


class InvariantReader(EdgeReader):
    """Scores of the class, from distances and angles only.

    Args:
        size: see `ReaderSize`.
        classes: C.
        dropout: of the summary, in training.
    """

    def __init__(self, size: ReaderSize, classes: int, dropout: float) -> None:
        super().__init__(size, _OWN, classes, dropout)

    def forward(self, positions: Tensor, normals: Tensor) -> Tensor:
        """Read each cloud.

        Args:
            positions: (clouds, N, 3), centred, of radius 1, the first ones spread over the cloud.
            normals: of the same shape, unit, or zero where unknown.

        Returns:
            (clouds, C) scores of the classes.
        """
        neighbours = self.find_neighbours(positions)
        positions, normals = positions[:, : self.size.points], normals[:, : self.size.points]
        with torch.no_grad():
            radius = positions.norm(dim=-1, keepdim=True)
            outward = positions / radius.clamp_min(1e-9)
            slope, level = (normals * outward).sum(-1, keepdim=True), level_part(normals, outward)
            own = torch.cat((radius, slope, level.norm(dim=-1, keepdim=True)), -1)
        _, summary = self.summarise(outward, own, positions, normals, neighbours)
        scores: Tensor = self.classes(summary)
        return scores
