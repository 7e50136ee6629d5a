"""PointNet++ (Qi et al. 2017) in compact form: single-scale grouping, two levels, then a small PointNet.

Neighbours are the nearest points, however far, instead of those within a radius.
"""

import torch
from benchmarks.baselines.base import Baseline
from benchmarks.baselines.layers import Abstraction, head, largest, perceptron
from torch import Tensor

from qecnet.nn import NetworkConfig


def offset(point: Tensor, normal: Tensor, other: Tensor, other_normal: Tensor) -> Tensor:
    """Where a neighbour is, seen from its centre; a `Relation`."""
    return other - point


class PointNet2(Baseline):
    """Sees coordinates relative to each centre, along the world's axes: a rotation changes what it sees."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config)
        self.first = Abstraction(offset, 128, 16, 3, 64, 64, 64)
        self.second = Abstraction(offset, 32, 16, 3 + 64, 128, 128, 256)
        self.whole = perceptron(3 + 256, 256, 512)
        self.head = head(512, config.classes)

    def scores(self, points: Tensor, normals: Tensor, present: Tensor) -> Tensor:
        points, _, present, rows = self.second(*self.first(points, normals, present))
        found = self.whole(torch.cat((points[present], rows), -1))
        return self.head(largest(found, present))  # type: ignore[no-any-return]
