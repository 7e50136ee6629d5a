"""What all baselines share: points and normals in, scores out."""

from abc import abstractmethod

import torch
from torch import Tensor

from qecnet.algebra import rotate
from qecnet.geometry import OrientedPoints
from qecnet.nn import Network, NetworkConfig, Prediction, register_network

TRAINING = {"loss": "cross_entropy", "schedule": "onecycle", "batch_size": 32, "epochs": 30, "method": "centred"}
"""As is usual for them: cross-entropy, a learning rate that falls, larger batches."""


class Baseline(Network):
    """A network that scores classes from points. A subclass says how, in `scores`.

    It has no pose to give: its poses are the identity for every class.
    """

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
        activations = self.scores(*_present_first(points)).softmax(-1)
        identity = torch.eye(4, dtype=activations.dtype, device=activations.device)[0]
        return Prediction(activations, identity.expand(*activations.shape, 4), descriptor=activations)


def register_baseline(name: str, network: type[Baseline]) -> None:
    """Make a baseline known to `create_network`, weight files and training."""
    register_network(name, network, NetworkConfig(classes=40), TRAINING)


def _present_first(points: OrientedPoints) -> tuple[Tensor, Tensor, Tensor]:
    """The points (B, N, 3), normals (B, N, 3) and present (B, N) that `scores` takes."""
    up = points.positions.new_tensor([0.0, 0.0, 1.0])
    normals = rotate(points.frames, up.expand_as(points.positions))
    present, order = points.valid.sort(dim=1, descending=True, stable=True)
    index = order[..., None].expand_as(normals)
    return points.positions.gather(1, index), normals.gather(1, index), present
