"""Predicts the class of a cloud without a candidate pose: no rotation of the cloud changes the scores.

Every point takes the direction away from the centre of the cloud for up, and sees its neighbourhood from there. Where
points lie in the whole cloud is seen from its principal frames. These rotate with the cloud unless two of its variances
are equal: then rotations may change the scores a little.
"""

import torch
from torch import Tensor, nn

from ..algebra import to_matrix
from .edge_reader import EdgeReader, ReaderSize, level_part
from .principal import principal_frames

_OWN = 3
"""What is known of a point by itself: its distance from the centre, and its normal along and across that direction."""


class InvariantReader(EdgeReader):
    """Scores of the class, from what no rotation changes.

    Args:
        size: see `ReaderSize`.
        classes: C.
        dropout: of the summary, in training.
        rank: of the summary, see `summary_layer`.
    """

    def __init__(self, size: ReaderSize, classes: int, dropout: float, rank: int = 0) -> None:
        super().__init__(size, _OWN, classes, dropout, rank)
        self.placed = nn.Linear(6, self.whole.out_features, bias=False)

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
            axes, last = to_matrix(principal_frames(positions)), min(self.size.centres[1], positions.shape[1])
            seen = torch.cat((positions[:, None, :last] @ axes, normals[:, None, :last] @ axes), -1)
        # A centre lies on its own up direction, so four of the values that it sees of a neighbour are 0.
        found = self.read_neighbourhoods(outward, own, positions, normals, neighbours)
        # Each centre from each of the four frames: (clouds, 4, M, ·).
        _, summary = self.summarise((found[:, None] + self.placed(seen)).flatten(1, 2))
        scores: Tensor = self.classes(summary)
        return scores
