"""Clouds of other proportions: a chair that is wider or taller is a chair still, and stands as it stood."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import normalize

from qecnet.algebra import from_matrix, to_matrix
from qecnet.geometry import Prepared
from qecnet.geometry.frames import Method


def stretched(prepared: Prepared, factors: Tensor, method: Method) -> Prepared:
    """A batch of prepared clouds (B), each stretched along its own axes by (B, 3) factors, then at radius 1 again.

    Frames become those of the stretched surface: normals as normals do, and x follows the surface; centred frames look
    to the centre anew.
    """
    matrices = to_matrix(prepared.poses)
    factors = factors[:, None]
    points = prepared.points * factors
    z = normalize(matrices[..., 2] / factors, dim=-1)
    x = -points if method == "centred" else matrices[..., 0] * factors
    x = x - (x * z).sum(-1, keepdim=True) * z
    length = x.norm(dim=-1, keepdim=True)
    x = x / length.clamp_min(torch.finfo(x.dtype).tiny)
    poses = from_matrix(torch.stack((x, torch.linalg.cross(z, x), z), -1))
    clear = prepared.valid & (length[..., 0] > 1e-3)  # a shorter way to the centre has no direction to rely on
    identity = torch.eye(4, dtype=poses.dtype)[0]
    radius = points.norm(dim=-1).amax(-1)[:, None, None].clamp_min(torch.finfo(x.dtype).tiny)
    return replace(prepared, points=points / radius, poses=torch.where(clear[..., None], poses, identity), valid=clear)
