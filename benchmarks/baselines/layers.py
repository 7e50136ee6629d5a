"""The parts that baselines are made of. What is not present is left out, of batch normalisation too.

Features of present points are rows (R, C): those of the first cloud in their order, then those of the next.
"""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

Relation = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""What a centre sees of its neighbours: its point and normal (R, 1, 3), theirs (R, K, 3) → features (R, K, F)."""


def perceptron(*widths: int) -> nn.Sequential:
    """Layers (R, widths[0]) → (R, widths[-1]), each linear, normalised over the rows, and rectified."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after, bias=False), nn.BatchNorm1d(after), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


def head(width: int, classes: int) -> nn.Sequential:
    """From a cloud's features to its scores. (B, width) → (B, classes)"""
    return nn.Sequential(perceptron(width, 256), nn.Dropout(0.3), nn.Linear(256, classes))


def padded(rows: Tensor, present: Tensor) -> Tensor:
    """Rows (R, C) at their places, and 0 where none is present. present (B, N) → (B, N, C)"""
    filled = rows.new_zeros(present.numel(), rows.shape[-1])
    return filled.index_copy(0, present.flatten().nonzero()[:, 0], rows).view(*present.shape, rows.shape[-1])


def largest(rows: Tensor, present: Tensor) -> Tensor:
    """The maximum of each cloud's rows; 0 for a cloud without any. (R, C) → (B, C)"""
    found = padded(rows, present).masked_fill(~present[..., None], -torch.inf).max(1).values
    return torch.where(present.any(1, keepdim=True), found, 0.0)


def mean(rows: Tensor, present: Tensor) -> Tensor:
    """The mean of each cloud's rows, 0 for a cloud without any. (R, C) → (B, C)"""
    return padded(rows, present).sum(1) / present.sum(1, keepdim=True).clamp_min(1)


def nearest(places: Tensor, present: Tensor, centres: int, count: int) -> Tensor:
    """The neighbours, itself among them, of each of the first `centres` of a cloud's points that is present.

    places (B, N, D), present (B, N) → (R, K), as numbers of the B · N points. Where a cloud has fewer than K, the
    nearest one is there again, which no maximum sees.
    """
    # Products of matrices are fast, but lose what close points differ by: they are for features.
    mode = "donot_use_mm_for_euclid_dist" if places.shape[-1] == 3 else "use_mm_for_euclid_dist"
    with torch.no_grad():
        distances = torch.cdist(places[:, :centres], places, compute_mode=mode)
        distances = distances.masked_fill(~present[:, None], torch.inf)
        found, index = distances.topk(min(count, places.shape[1]), largest=False)
        index = torch.where(found < torch.inf, index, index[..., :1])
        first = places.shape[1] * torch.arange(len(places), device=places.device)
        return (index + first[:, None, None])[present[:, :centres]]


def pick(x: Tensor, index: Tensor) -> Tensor:
    """x (B, N, C) at index (R, K), numbers of the B · N points → (R, K, C).

    Unlike `x[index]`, its gradient is summed in the same order each time.
    """
    return x.flatten(0, 1).index_select(0, index.flatten()).view(*index.shape, x.shape[-1])


class Abstraction(nn.Module):
    """A level of PointNet++: the first `centres` points each take the maximum over what they see of their neighbours.

    Points come in the order of farthest point sampling, as `qecnet.geometry.prepare` gives them: so the first ones of a
    cloud are its farthest points, of those that are present.
    """

    def __init__(self, relation: Relation, centres: int, neighbours: int, *widths: int) -> None:
        super().__init__()
        self.relation, self.centres, self.neighbours = relation, centres, neighbours
        self.perceptron = perceptron(*widths)

    def forward(
        self, points: Tensor, normals: Tensor, present: Tensor, rows: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """As `Baseline.scores`, and the rows of features that points have already → the same of the centres alone."""
        few = slice(self.centres)
        index = nearest(points, present, self.centres, self.neighbours)
        own, normal = (x[:, few][present[:, few]][:, None] for x in (points, normals))
        edges = self.relation(own, normal, pick(points, index), pick(normals, index))
        if rows is not None:
            edges = torch.cat((edges, pick(padded(rows, present), index)), -1)
        found = self.perceptron(edges.flatten(0, 1)).unflatten(0, index.shape).max(1).values
        return points[:, few], normals[:, few], present[:, few], found
