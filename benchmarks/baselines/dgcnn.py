"""DGCNN (Wang et al. 2019) in compact form: three edge convolutions, each on the graph of nearest features."""

import torch
from benchmarks.baselines.base import Baseline
from benchmarks.baselines.layers import head, largest, mean, nearest, padded, perceptron, pick
from torch import Tensor, nn

from qecnet.nn import NetworkConfig


class EdgeConv(nn.Module):
    """The maximum over neighbours j of φ(W (x_i, x_j − x_i)), φ a normalisation and a leaky rectifier.

    The linear part is applied to points and not to edges, as A x_i + B x_j: the same functions, for less work.
    """

    def __init__(self, before: int, after: int, neighbours: int) -> None:
        super().__init__()
        self.neighbours = neighbours
        self.own = nn.Linear(before, after, bias=False)
        self.other = nn.Linear(before, after, bias=False)
        self.activation = nn.Sequential(nn.BatchNorm1d(after), nn.LeakyReLU(0.2, inplace=True))

    def forward(self, rows: Tensor, present: Tensor) -> Tensor:
        """Features of the present points, (R, before) → (R, after); present (B, N)."""
        index = nearest(padded(rows, present), present, present.shape[1], self.neighbours)
        edges = self.own(rows)[:, None] + pick(padded(self.other(rows), present), index)
        return self.activation(edges.flatten(0, 1)).unflatten(0, index.shape).max(1).values  # type: ignore[no-any-return]


class DGCNN(Baseline):
    """Reads the first 256 points, a cloud's farthest ones as `qecnet.geometry.prepare` orders them.

    The first convolution sees absolute coordinates, so a rotation changes what it sees.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config)
        self.edges = nn.ModuleList(EdgeConv(before, after, 12) for before, after in ((3, 64), (64, 64), (64, 64)))
        self.points = perceptron(3 * 64, 256)
        self.head = head(2 * 256, config.classes)

    def scores(self, points: Tensor, normals: Tensor, present: Tensor) -> Tensor:
        present = present[:, :256]
        rows = [points[:, :256][present]]
        for edge in self.edges:
            rows.append(edge(rows[-1], present))
        found = self.points(torch.cat(rows[1:], -1))
        return self.head(torch.cat((largest(found, present), mean(found, present)), -1))  # type: ignore[no-any-return]
