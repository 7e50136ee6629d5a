"""Random capsules and patches to try the modules on, masked entries among them."""

import torch

from qecnet.algebra import random_quaternion
from qecnet.geometry import OrientedPoints
from qecnet.nn import Capsules, Pooling


def random_cloud(
    clouds: int, points: int, patches: int, neighbours: int, dtype: torch.dtype, seed: int = 0, missing: float = 0.1
) -> tuple[Capsules, Pooling]:
    """Primary capsules at centred random points, a share of the frames invalid and of the neighbours missing."""
    generator = torch.Generator().manual_seed(seed)
    positions = torch.randn(clouds, points, 3, generator=generator, dtype=dtype)
    positions = positions - positions.mean(-2, keepdim=True)
    frames = random_quaternion((clouds, points), generator, dtype=dtype)
    valid = torch.rand(clouds, points, generator=generator) >= missing
    centres = positions[:, :patches]
    nearest = torch.cdist(centres, positions).topk(neighbours, largest=False).indices
    present = torch.rand(nearest.shape, generator=generator) >= missing
    return Capsules.primary(positions, frames, valid), Pooling(centres, nearest, present)


def random_points(clouds: int, points: int, dtype: torch.dtype, seed: int = 0, missing: float = 0.1) -> OrientedPoints:
    """Centred random points, a share of the frames invalid."""
    capsules, _ = random_cloud(clouds, points, 1, 1, dtype, seed, missing)
    return OrientedPoints.from_frames(capsules.positions, capsules.poses[..., 0, :], capsules.activations[..., 0] > 0)
