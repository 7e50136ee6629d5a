"""What all baselines share: points and normals in, scores out."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ...algebra import rotate
from ..capsules import Capsules, Pooling
from ..network import Prediction


@dataclass(frozen=True)
class BaselineConfig:
    """Which baseline, and for how many classes."""

    kind: str
    classes: int


class Baseline(nn.Module):
    """A network that scores classes from points. A subclass says how, in `scores`."""

    def __init__(self, config: BaselineConfig) -> None:
        super().__init__()
        self.config = config

    def scores(self, points: Tensor, normals: Tensor, present: Tensor) -> Tensor:
        """points (B, N, 3), normals (B, N, 3): z axes of the frames, present (B, N) bool → logits (B, classes)."""
        raise NotImplementedError

    def forward(self, capsules: Capsules, poolings: Sequence[Pooling]) -> Prediction:
        """As `QECNet`, which also says what `poolings` are; baselines group points by themselves."""
        present = capsules.activations[..., 0] > 0
        up = capsules.positions.new_tensor([0.0, 0.0, 1.0])
        normals = rotate(capsules.poses[..., 0, :], up.expand_as(capsules.positions))
        activations = torch.sigmoid(self.scores(capsules.positions, normals, present))
        identity = torch.eye(4, dtype=activations.dtype, device=activations.device)[0]
        return Prediction(activations, identity.expand(*activations.shape, 4))
