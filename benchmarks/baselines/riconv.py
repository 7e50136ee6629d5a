"""RIConv++ (Zhang, Hua & Yeung, IJCV 2022): convolutions on informative rotation-invariant features.

A reference point orders its neighbours by their angle in its tangent plane. Its features of a neighbour say how that
one lies to the reference point, and to the previous neighbour in this order: lengths and angles, nothing else.
"""

import torch
from benchmarks.baselines.base import Baseline, BaselineConfig
from benchmarks.baselines.layers import largest, nearest, padded, perceptron, pick
from torch import Tensor, nn
from torch.nn.functional import normalize

FEATURES = 8
"""Number of features of a neighbour."""


def order_around(offsets: Tensor, axis: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
    """Sort neighbours by their angle about an axis, from the one that is farthest from it (section 3.2).

    Args:
        offsets: (R, K, 3), from the reference point to its neighbours.
        axis: (R, 1, 3), unit.
        present: (R, K) bool; neighbours that are not come last.

    Returns:
        Their order (R, K), and their angles in that order, 0 to 2π; 0 where a neighbour is on the axis.
    """
    offsets = torch.where(present[..., None], offsets, 0.0)
    flat = offsets - (offsets * axis).sum(-1, keepdim=True) * axis
    far = flat.norm(dim=-1).argmax(1)[:, None, None].expand(-1, 1, 3)
    start = flat.gather(1, far)
    side = torch.linalg.cross(axis.expand_as(start), start)
    angle = torch.atan2((flat * side).sum(-1), (flat * start).sum(-1))
    # An angle that rounding has put just below 0 is 0.
    angle = torch.where(angle < -1e-5, angle + 2 * torch.pi, angle.clamp_min(0))
    angle, order = angle.masked_fill(~present, torch.inf).sort(dim=1, stable=True)
    return order, angle


def informative_features(offsets: Tensor, axis: Tensor, normals: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
    """Compute what a reference point sees of its neighbours (section 3.2).

    Args:
        offsets: (R, K, 3), from the reference point to its neighbours.
        axis: (R, 1, 3), the reference point's normal.
        normals: (R, K, 3) of the neighbours.
        present: (R, K) bool, which neighbours there are.

    Returns:
        Features (R, K, 8) of the neighbours in their order about the axis, and that order (R, K).
    """
    order, turn = order_around(offsets, axis, present)
    index = order[..., None].expand_as(offsets)
    offsets, normals = offsets.gather(1, index), normals.gather(1, index)
    # Before the first is the last that is present.
    last = present.sum(1, keepdim=True).sub(1).clamp_min(0)
    before = torch.cat((last, torch.arange(order.shape[1] - 1, device=last.device).expand(len(last), -1)), 1)
    step = (turn - turn.gather(1, before)) % (2 * torch.pi)
    index = before[..., None].expand_as(offsets)
    to_reference = _pair(offsets, axis.expand_as(normals), normals)
    to_neighbour = _pair(offsets - offsets.gather(1, index), normals.gather(1, index), normals)
    return torch.stack((offsets.norm(dim=-1), step, *to_reference, *to_neighbour), -1), order


def _pair(offset: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cosines of the offset to both normals, and the signed angle between the normals."""
    direction = normalize(offset, dim=-1)
    one, other = (direction * first).sum(-1), (direction * second).sum(-1)
    # Not the arc cosine, which loses half of the digits where normals are nearly parallel.
    angle = torch.atan2(torch.linalg.cross(first, second).norm(dim=-1), (first * second).sum(-1))
    return one, other, torch.where(one < other, angle, -angle)


class InformativeConv(nn.Module):
    """The first `centres` points each take the maximum over their neighbours' features and what these have learned."""

    def __init__(self, centres: int, neighbours: int, lifted: list[int], before: int, after: int) -> None:
        super().__init__()
        self.centres, self.neighbours = centres, neighbours
        self.lift = perceptron(FEATURES, *lifted)
        self.perceptron = perceptron(lifted[-1] + before, after)

    def forward(
        self, points: Tensor, normals: Tensor, present: Tensor, rows: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """As `Baseline.scores`, and the rows of features that points have already → the same of the centres alone."""
        few = slice(self.centres)
        index = nearest(points, present, self.centres, self.neighbours)
        own, axis = (x[:, few][present[:, few]][:, None] for x in (points, normals))
        there = index != index[:, :1]  # `nearest` repeats the first where there are too few
        there[:, 0] = True
        seen, order = informative_features(pick(points, index) - own, axis, pick(normals, index), there)
        there = there.gather(1, order)
        found = self.lift(seen[there])
        if rows is not None:
            learned = pick(padded(rows, present), index.gather(1, order))
            found = torch.cat((found, learned[there]), -1)
        return points[:, few], normals[:, few], present[:, few], largest(self.perceptron(found), there)


class RIConv(Baseline):
    """Invariant up to rounding, which may exchange neighbours that are equally far or at equal angles.

    The last layer takes the whole cloud as one neighbourhood of its centre, with the direction of least variance as its
    axis. An eigenvector has no sign; here it points to the side that the sum of the normals points to, without which
    the network would not be invariant.
    """

    compact = BaselineConfig(classes=40, frames=512, width=0.5, reads=256)
    class_bias = "head.4.bias"

    def __init__(self, config: BaselineConfig) -> None:
        super().__init__(config)
        lifted = config.scale(32, 64)
        widths = config.scale(32, 64, 128, 256)
        sizes = [(config.reads >> level, 4 << level) for level in range(1, 5)]
        self.levels = nn.ModuleList(
            InformativeConv(*size, lifted, before, after)
            for size, before, after in zip(sizes, (0, *widths), widths, strict=False)
        )
        whole, *hidden = config.scale(512, 256, 128)
        self.lift = perceptron(FEATURES, *lifted)
        self.whole = perceptron(lifted[-1] + widths[-1], whole)
        self.head = nn.Sequential(
            perceptron(whole, hidden[0]),
            nn.Dropout(0.4),
            perceptron(*hidden),
            nn.Dropout(0.4),
            nn.Linear(hidden[1], config.classes),
        )

    def scores(self, points: Tensor, normals: Tensor, present: Tensor) -> Tensor:
        rows = None
        for level in self.levels:
            points, normals, present, rows = level(points, normals, present, rows)
        assert rows is not None
        axis = _least_axis(points, normals, present)
        seen, order = informative_features(points, axis, normals, present)
        ordered = present.gather(1, order)
        learned = padded(rows, present).gather(1, order[..., None].expand(-1, -1, rows.shape[-1]))
        found = self.whole(torch.cat((self.lift(seen[ordered]), learned[ordered]), -1))
        return self.head(largest(found, ordered))  # type: ignore[no-any-return]


def _least_axis(points: Tensor, normals: Tensor, present: Tensor) -> Tensor:
    """The direction of least variance of each cloud, on the side of the sum of its normals. → (B, 1, 3)"""
    points, normals = (torch.where(present[..., None], x, 0.0) for x in (points, normals))
    axis = torch.linalg.eigh(points.transpose(1, 2) @ points).eigenvectors[..., 0]
    side = (axis * normals.sum(1)).sum(-1, keepdim=True)
    return torch.where(side < 0, -axis, axis)[:, None]
