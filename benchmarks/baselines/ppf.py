"""A rotation-invariant network from point-pair features, in the spirit of PPF-FoldNet (Deng et al. 2018).

It is PointNet++ in all but what a centre sees of a neighbour: lengths and cosines, which no rotation changes. It needs
normals, but no frames.
"""

import torch
from benchmarks.baselines.base import Baseline
from benchmarks.baselines.layers import Abstraction, head, largest, mean, perceptron
from torch import Tensor
from torch.nn.functional import normalize

from qecnet.nn import NetworkConfig

PAIR = 8
"""How many features a pair has."""


def pair_features(point: Tensor, normal: Tensor, other: Tensor, other_normal: Tensor) -> Tensor:
    """|d| and the cosines of ∠(n₁, d), ∠(n₂, d), ∠(n₁, n₂), and of both points |p| and the cosine of ∠(n, p).

    d goes from the point to the other, p from the cloud's centre to the point; cosines with a zero are 0. A `Relation`.
    """
    offset = other - point
    direction = normalize(offset, dim=-1)
    pair = offset.norm(dim=-1), _dot(normal, direction), _dot(other_normal, direction), _dot(normal, other_normal)
    alone = [(p.norm(dim=-1), _dot(n, normalize(p, dim=-1))) for p, n in ((point, normal), (other, other_normal))]
    return torch.stack([feature.expand_as(pair[0]) for feature in (*pair, *alone[0], *alone[1])], -1)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1)


class PPFNet(Baseline):
    """Invariant up to rounding, which may exchange neighbours that are equally far."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config)
        self.first = Abstraction(pair_features, 128, 20, PAIR, 64, 64, 64)
        self.second = Abstraction(pair_features, 32, 16, PAIR + 64, 128, 128, 256)
        self.whole = perceptron(256, 256)
        self.head = head(2 * 256, config.classes)

    def scores(self, points: Tensor, normals: Tensor, present: Tensor) -> Tensor:
        _, _, present, rows = self.second(*self.first(points, normals, present))
        found = self.whole(rows)
        return self.head(torch.cat((largest(found, present), mean(found, present)), -1))  # type: ignore[no-any-return]
