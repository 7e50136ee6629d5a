"""PointNet (Qi et al. 2017) without its spatial transformers: one shared perceptron a point, a maximum, a head."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from .base import Baseline, BaselineConfig


class PointNet(Baseline):
    """Sees absolute coordinates, so a rotation changes what it sees."""

    def __init__(self, config: BaselineConfig) -> None:
        super().__init__(config)
        widths = (3, 64, 64, 128, 512)
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Conv1d(before, after, 1, bias=False), nn.BatchNorm1d(after), nn.ReLU()]
        self.points = nn.Sequential(*layers)
        self.head = nn.Sequential(
            nn.Linear(512, 256, bias=False),
            nn.BatchNorm1d(256),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(256, config.classes),
        )

    def scores(self, points: Tensor, normals: Tensor, present: Tensor) -> Tensor:
        features = self.points(points.transpose(1, 2))
        pooled = torch.where(present[:, None], features, -torch.inf).amax(-1)
        return self.head(pooled)  # type: ignore[no-any-return]
