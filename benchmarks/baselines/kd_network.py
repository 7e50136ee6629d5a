"""Kd-network (Klokov & Lempitsky, ICCV 2017): features go up a balanced k-d tree, to a root that is classified.

A node takes the features of its two children through an affine map that it shares with all nodes of its level that are
split along the same axis.
"""

from itertools import pairwise

import torch
from benchmarks.baselines.base import Baseline, BaselineConfig
from torch import Tensor, nn

AXES = 3


def build_tree(points: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Split clouds at their median along their longest side, and the halves again, down to single points.

    Args:
        points: (B, 2^D, 3).

    Returns:
        The points in the order of the leaves (B, 2^D, 3), and the axes that the nodes of each level are split along,
        from the root's (B, 1) to the last ones' (B, 2^(D-1)).
    """
    axes, nodes = [], points[:, None]
    while nodes.shape[2] > 1:
        axis = (nodes.amax(2) - nodes.amin(2)).argmax(-1)
        along = nodes.gather(3, axis[..., None, None].expand(*nodes.shape[:3], 1))[..., 0]
        order = along.argsort(dim=2, stable=True)
        nodes = nodes.gather(2, order[..., None].expand_as(nodes))
        nodes = nodes.unflatten(2, (2, -1)).flatten(1, 2)
        axes.append(axis)
    return nodes[:, :, 0], axes


class KdLevel(nn.Module):
    """One level of the tree: an affine map for each axis, normalisation over all of its nodes, a rectifier."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.maps = nn.Linear(2 * before, AXES * after)
        self.activation = nn.Sequential(nn.BatchNorm1d(after), nn.ReLU(inplace=True))

    def forward(self, children: Tensor, axis: Tensor) -> Tensor:
        """Features of children (B, 2M, before), axes of their parents (B, M) → features of parents (B, M, after)."""
        pairs = children.unflatten(1, (-1, 2)).flatten(2)
        mapped = self.maps(pairs).unflatten(-1, (AXES, -1))
        chosen = mapped.gather(2, axis[..., None, None].expand(*axis.shape, 1, mapped.shape[-1])).squeeze(2)
        return self.activation(chosen.flatten(0, 1)).view_as(chosen)  # type: ignore[no-any-return]


class KdNetwork(Baseline):
    """Sees absolute coordinates and the axes of splits, so a rotation changes what it sees."""

    compact = BaselineConfig(classes=40, frames=512, width=0.5, reads=512)
    class_bias = "head.bias"

    def __init__(self, config: BaselineConfig) -> None:
        super().__init__(config)
        depth = config.reads.bit_length() - 1
        widths = [3, *config.scale(32, 64, 64, 128, 128, 256, 256, 512, 512, 128)[-depth:]]
        self.levels = nn.ModuleList(KdLevel(*pair) for pair in pairwise(widths))
        self.head = nn.Linear(widths[-1], config.classes)

    def scores(self, points: Tensor, normals: Tensor, present: Tensor) -> Tensor:
        rows, axes = build_tree(_fill(points, present, 1 << len(self.levels)))
        for level, axis in zip(self.levels, reversed(axes), strict=True):
            rows = level(rows, axis)
        return self.head(rows[:, 0])  # type: ignore[no-any-return]


def _fill(points: Tensor, present: Tensor, count: int) -> Tensor:
    """The first `count` points of each cloud, repeated from the first on where it has fewer. → (B, count, 3)"""
    points = torch.where(present[..., None], points, 0.0)
    index = torch.arange(count, device=points.device) % present.sum(1, keepdim=True).clamp_min(1)
    return points.gather(1, index[..., None].expand(-1, -1, 3))
