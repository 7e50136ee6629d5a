"""What all baselines share: points and normals in, scores out."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import normalize

from qecnet.algebra import rotate
from qecnet.geometry import OrientedPoints
from qecnet.nn import Network, NetworkConfig, Prediction, register_network

TRAINING = {"loss": "cross_entropy", "schedule": "onecycle", "batch_size": 32, "epochs": 30, "method": "centred"}
"""As is usual for them: cross-entropy, a learning rate that falls, larger batches.

Normals are the z axes of centred frames. Networks that read none are given the same clouds, so all share one cache.
"""


@dataclass(frozen=True)
class BaselineConfig(NetworkConfig):
    """The configuration of a network whose size can be changed; the defaults are its paper's.

    Attributes:
        width: number of channels as a share of the paper's.
        reads: number of points that are read of a cloud, the first in the order of farthest point sampling.
    """

    frames: int = 1024
    width: float = 1.0
    reads: int = 1024

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.width <= 1:
            raise ValueError(f"width is {self.width}; it must be above 0 and at most 1")
        if not 1 <= self.reads <= 20_000:
            raise ValueError(f"reads is {self.reads}; it must be at least 1 and at most 20,000")

    def scale(self, *channels: int) -> list[int]:
        """Scale the paper's numbers of channels by the width; each stays at least 1."""
        return [max(1, round(self.width * count)) for count in channels]


class Baseline(Network):
    """A network that scores classes from points. A subclass says how, in `scores`.

    It has no pose to give: its poses are the identity for every class.

    Attributes:
        compact: the configuration that is trained here.
        training_settings: those that differ from the trainer's own.
    """

    compact: ClassVar[NetworkConfig] = NetworkConfig(classes=40)
    training_settings: ClassVar[dict[str, Any]] = TRAINING
    title = "a baseline"
    has_poses = False
    normalises_batch = True
    class_bias = "head.2.bias"

    @abstractmethod
    def scores(self, points: Tensor, normals: Tensor, present: Tensor) -> Tensor:
        """Score classes.

        Args:
            points: (B, N, 3). They keep their order, but those that are not present come last and may hold anything.
            normals: (B, N, 3), z axes of the frames.
            present: (B, N) bool.

        Returns:
            Logits (B, classes).
        """

    @property
    def descriptor_size(self) -> int:
        return self.config.classes

    def predict(self, points: OrientedPoints) -> Prediction:
        """An activation is the probability of a class."""
        activations = self.scores(*self.read(points)).softmax(-1)
        identity = torch.eye(4, dtype=activations.dtype, device=activations.device)[0]
        return Prediction(activations, identity.expand(*activations.shape, 4), descriptor=activations)

    def read(self, points: OrientedPoints) -> tuple[Tensor, Tensor, Tensor]:
        """The points (B, N, 3), normals (B, N, 3) and present (B, N) that `scores` takes."""
        reads = getattr(self.config, "reads", None)
        up = points.positions.new_tensor([0.0, 0.0, 1.0])
        normals = rotate(points.frames, up.expand_as(points.positions))
        present, order = points.valid.sort(dim=1, descending=True, stable=True)
        index = order[:, :reads, None].expand(-1, -1, 3)
        return points.positions.gather(1, index), normals.gather(1, index), present[:, :reads]


def register_baseline(name: str, network: type[Baseline]) -> None:
    """Make a baseline known to `create_network`, weight files and training."""
    register_network(name, network, network.compact, network.training_settings)


def random_rotations(like: Tensor) -> Tensor:
    """A rotation for each cloud, uniform over SO(3), from the global generator that the trainer seeds. → (B, 4)"""
    return normalize(torch.randn(len(like), 4, dtype=like.dtype, device=like.device), dim=-1)
