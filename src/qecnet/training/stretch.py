"""Augmentation by stretching, which changes neither class nor pose."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from qecnet.algebra import from_matrix, to_matrix
from qecnet.geometry import OrientedPoints, PrepareMethod


def stretch(points: OrientedPoints, factors: Tensor, method: PrepareMethod) -> OrientedPoints:
    """Stretch clouds (B, N) along the axes of their coordinates by `factors`, (B, 3), and scale them to radius 1 again.

    Frames become those of the stretched surface: z stays normal to it, x stays tangent to it, and the x of centred
    frames points to the centre again.
    """
    matrices = to_matrix(points.frames)
    factors = factors[:, None]
    positions = points.positions * factors
    z = normalize(matrices[..., 2] / factors, dim=-1)
    x = -positions if method == "centred" else matrices[..., 0] * factors
    x = x - (x * z).sum(-1, keepdim=True) * z
    length = x.norm(dim=-1, keepdim=True)
    x = x / length.clamp_min(torch.finfo(x.dtype).tiny)
    frames = from_matrix(torch.stack((x, torch.linalg.cross(z, x), z), -1))
    clear = points.valid & (length[..., 0] > 1e-3)  # a shorter x has no reliable direction
    identity = torch.eye(4, dtype=frames.dtype)[0]
    radius = positions.norm(dim=-1).amax(-1).clamp_min(torch.finfo(x.dtype).tiny)
    frames = torch.where(clear[..., None], frames, identity)
    candidates = _stretch_poses(points.candidates, factors)
    return OrientedPoints(
        positions / radius[:, None, None],
        frames,
        clear,
        points.centre * factors[:, 0],
        points.scale * radius,
        candidates,
    )


def _stretch_poses(poses: Tensor, factors: Tensor) -> Tensor:
    """Poses (B, C, 4) whose z axes stay normal to the plane that they were normal to; zeros stay zeros."""
    matrices = to_matrix(poses)
    z = normalize(matrices[..., 2] / factors, dim=-1)
    x = matrices[..., 0] * factors
    x = normalize(x - (x * z).sum(-1, keepdim=True) * z, dim=-1)
    stretched = from_matrix(torch.stack((x, torch.linalg.cross(z, x), z), -1))
    return torch.where(poses.any(-1, keepdim=True), stretched, 0.0)
