"""PointNetLK (Aoki et al., CVPR 2019): two clouds are aligned by Lucas & Kanade's algorithm on PointNet's features.

The Jacobian of the features by small rotations of the template is computed once; each iteration rotates the source by
what the pseudoinverse makes of the difference of the features. Clouds are centred, so rotations are all there is.

It aligns pairs, and has no pose for a cloud alone. In training, every other point of an upright cloud is the template,
and the rest, rotated, the source. Its poses then say how far the result is from that rotation, so the trainer's
distance to upright is the error. Rotations are uniform over SO(3), as where the capsule network's paper compares; its
own has angles up to 45°. The features are also classified: the paper's network is pretrained so.
"""

import math

import torch
from benchmarks.baselines.base import TRAINING, Baseline, BaselineConfig, random_rotations
from benchmarks.baselines.layers import largest, perceptron
from torch import Tensor, nn
from torch.nn.functional import normalize

from qecnet.algebra import canonicalize, conjugate, from_rotvec, multiply, rotate
from qecnet.geometry import OrientedPoints
from qecnet.nn import Prediction

ITERATIONS = 10
STEP = 0.01
"""Radians, of the finite differences."""


class PointNetLK(Baseline):
    """Aligns two clouds; neither invariant nor equivariant: what it finds depends on the poses of both."""

    title = "PointNetLK"
    has_poses = True
    compact = BaselineConfig(classes=40, frames=512, width=0.5, reads=256)
    training_settings = TRAINING | {"aligned": 1.0}
    class_bias = "head.1.bias"

    def __init__(self, config: BaselineConfig) -> None:
        super().__init__(config)
        widths = config.scale(64, 64, 64, 128, 1024)
        self.points = perceptron(3, *widths)
        cloud = config.scale(512, 256)
        self.head = nn.Sequential(perceptron(widths[-1], *cloud), nn.Linear(cloud[-1], config.classes))
        # It trains with poses, but a trained network has none for a single cloud: nothing may measure them.
        self.__dict__["has_poses"] = False

    def predict(self, points: OrientedPoints) -> Prediction:
        """Poses are the identity, except in training."""
        cloud, normals, present = self.read(points)
        activations = self.scores(cloud, normals, present).softmax(-1)
        pose = torch.eye(4, dtype=cloud.dtype, device=cloud.device)[0].expand(len(cloud), 4)
        if self.training:
            given = random_rotations(cloud)
            template, source = ((cloud[:, half::2], present[:, half::2]) for half in range(2))
            found = self.align(rotate(given[:, None], source[0]), source[1], *template)
            pose = multiply(conjugate(given), conjugate(found))
        return Prediction(activations, pose[:, None].expand(*activations.shape, 4), descriptor=activations)

    def scores(self, points: Tensor, normals: Tensor, present: Tensor) -> Tensor:
        return self.head(self.encode(points, present))  # type: ignore[no-any-return]

    def encode(self, points: Tensor, present: Tensor) -> Tensor:
        """Features of clouds, (B, N, 3), (B, N) → (B, C)."""
        return largest(self.points(points[present]), present)

    def align(self, source: Tensor, there: Tensor, template: Tensor, present: Tensor) -> Tensor:
        """Estimate the rotations that take sources to templates.

        Args:
            source: (B, N, 3), and there: (B, N) bool, which of its points there are.
            template: (B, M, 3), and present: (B, M) bool.

        Returns:
            (B, 4), WXYZ.
        """
        training = self.points.training
        self.points.eval()  # as the paper: features must not depend on what else is in the batch
        wanted = self.encode(template, present)
        turns = from_rotvec(STEP * torch.eye(3, dtype=source.dtype, device=source.device))
        moved = [self.encode(rotate(conjugate(turn), template), present) for turn in turns]
        jacobian = torch.stack([(wanted - features) / STEP for features in moved], -1)
        square = jacobian.transpose(1, 2) @ jacobian
        # A little on the diagonal: a cloud of one point, or one on a line, has no Jacobian of full rank.
        square = square + 1e-6 * (1 + square.diagonal(dim1=1, dim2=2).amax(1))[:, None, None] * torch.eye(3).to(square)
        inverse = torch.linalg.solve(square, jacobian.transpose(1, 2))
        found = torch.eye(4, dtype=source.dtype, device=source.device)[0].expand(len(source), 4)
        for _ in range(ITERATIONS):
            error = self.encode(rotate(found[:, None], source), there) - wanted
            step = -(inverse @ error[..., None])[..., 0]
            # No iteration turns by more than a right angle, from where the linear model says nothing.
            step = step / (step.norm(dim=-1, keepdim=True) / (math.pi / 2)).clamp_min(1)
            found = normalize(multiply(from_rotvec(step), found), dim=-1)
        self.points.train(training)
        return canonicalize(found)
