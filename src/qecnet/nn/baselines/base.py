"""What all baselines share: points and normals in, scores out."""

from abc import ABC, abstractmethod
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

    def __post_init__(self) -> None:
        if not isinstance(self.classes, int) or self.classes < 1:
            raise ValueError(f"classes is {self.classes}; a network needs a whole number, at least 1")


class Baseline(nn.Module, ABC):
    """A network that scores classes from points. A subclass says how, in `scores`."""

    def __init__(self, config: BaselineConfig) -> None:
        super().__init__()
        self.config = config

    @abstractmethod
    def scores(self, points: Tensor, normals: Tensor, present: Tensor) -> Tensor:
        """points (B, N, 3), normals (B, N, 3): z axes of the frames, present (B, N) bool → logits (B, classes).

        Points keep their order, but those that are not present come last: they may hold anything.
        """

    def forward(self, capsules: Capsules, poolings: Sequence[Pooling]) -> Prediction:
        """As `QECNet`, which also says what `poolings` are; baselines group points by themselves.

        An activation is the probability of a class.
        """
        if self.training and len(capsules.positions) < 2:
            raise ValueError("there is 1 cloud; a baseline normalises over its batch, and trains on at least 2")
        activations = self.scores(*_present_first(capsules)).softmax(-1)
        identity = torch.eye(4, dtype=activations.dtype, device=activations.device)[0]
        return Prediction(activations, identity.expand(*activations.shape, 4))


def _present_first(capsules: Capsules) -> tuple[Tensor, Tensor, Tensor]:
    """The points (B, N, 3), normals (B, N, 3) and present (B, N) that `scores` takes."""
    present = capsules.activations[..., 0] > 0
    up = capsules.positions.new_tensor([0.0, 0.0, 1.0])
    normals = rotate(capsules.poses[..., 0, :], up.expand_as(capsules.positions))
    present, order = present.sort(dim=1, descending=True, stable=True)
    index = order[..., None].expand_as(normals)
    return capsules.positions.gather(1, index), normals.gather(1, index), present
