"""IT-Net (Yuan et al., WACV 2020): a network that predicts a rotation towards upright, again and again.

A PointNet predicts a small rotation of the cloud, which is applied, and the result goes in again; a second PointNet
classifies what comes out. The paper's transformations have a translation too, which centred clouds do not need.

The trainer gives upright clouds. In training, the network rotates each at random, and its poses say how far what it
found is from that rotation: the trainer's distance to upright is then the error.
"""

import torch
from benchmarks.baselines.base import TRAINING, Baseline, BaselineConfig, random_rotations
from benchmarks.baselines.layers import largest, perceptron
from torch import Tensor, nn
from torch.nn.functional import normalize

from qecnet.algebra import conjugate, multiply, rotate
from qecnet.geometry import OrientedPoints
from qecnet.nn import Prediction

ITERATIONS = 5


class PointNetEncoder(nn.Module):
    """A perceptron of each point, the maximum over points, and a perceptron of that."""

    def __init__(self, point: list[int], cloud: list[int]) -> None:
        super().__init__()
        self.point, self.cloud = perceptron(3, *point), perceptron(point[-1], *cloud)

    def forward(self, points: Tensor, present: Tensor) -> Tensor:
        """(B, N, 3), (B, N) → (B, C)"""
        return self.cloud(largest(self.point(points[present]), present))  # type: ignore[no-any-return]


class ITNet(Baseline):
    """Neither invariant nor equivariant: it learns poses from rotated shapes. Its pose is the same for all classes."""

    title = "IT-Net"
    has_poses = True
    compact = BaselineConfig(classes=40, frames=512, width=0.5, reads=128)
    training_settings = TRAINING | {"aligned": 1.0}
    class_bias = "head.bias"

    def __init__(self, config: BaselineConfig) -> None:
        super().__init__(config)
        cloud = config.scale(512, 256)
        self.transformer = PointNetEncoder(config.scale(64, 128, 1024), cloud)
        self.turn = nn.Linear(cloud[-1], 4)
        with torch.no_grad():  # near the identity at first
            self.turn.weight.mul_(0.01)
            self.turn.bias.copy_(torch.tensor([1.0, 0, 0, 0]))
        self.classifier = PointNetEncoder(config.scale(64, 64, 64, 128, 1024), cloud)
        self.head = nn.Linear(cloud[-1], config.classes)

    def predict(self, points: OrientedPoints) -> Prediction:
        """All classes have the pose that was found."""
        cloud, _, present = self.read(points)
        given = random_rotations(cloud) if self.training else None
        if given is not None:
            cloud = rotate(given[:, None], cloud)
        upright = self.find_upright(cloud, present)
        activations = self.scores(rotate(upright[:, None].detach(), cloud), cloud, present).softmax(-1)
        pose = conjugate(upright)
        if given is not None:
            pose = multiply(conjugate(given), pose)
        return Prediction(activations, pose[:, None].expand(*activations.shape, 4), descriptor=activations)

    def scores(self, points: Tensor, normals: Tensor, present: Tensor) -> Tensor:
        """Score classes of clouds that have been rotated upright."""
        return self.head(self.classifier(points, present))  # type: ignore[no-any-return]

    def find_upright(self, cloud: Tensor, present: Tensor) -> Tensor:
        """Predict the rotations that make clouds (B, N, 3) upright. → (B, 4), WXYZ"""
        upright = torch.eye(4, dtype=cloud.dtype, device=cloud.device)[0].expand(len(cloud), 4)
        for _ in range(ITERATIONS):
            # Gradients do not pass through the input of the next iteration (section 3.2).
            seen = rotate(upright[:, None].detach(), cloud)
            upright = multiply(normalize(self.turn(self.transformer(seen, present)), dim=-1), upright)
        return upright
