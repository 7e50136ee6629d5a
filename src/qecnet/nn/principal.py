"""The frames of a whole cloud: its principal axes, with each choice of their signs that makes a rotation."""

import torch
from torch import Tensor

from ..algebra import from_matrix


@torch.no_grad()
def principal_frames(points: Tensor) -> Tensor:
    """(..., N, 3) → (..., 4, 4), quaternions WXYZ that turn frame coordinates into the cloud's.

    The axes come by rising variance. They turn with the cloud as a set of four: which comes first is arbitrary, so
    whatever reads them must not depend on their order. Where two variances are equal, the axes are any of their plane.
    """
    offsets = points.double() - points.double().mean(-2, keepdim=True)
    axes: Tensor = torch.linalg.eigh(offsets.mT @ offsets).eigenvectors
    axes = axes * torch.where(torch.linalg.det(axes) < 0, -1.0, 1.0)[..., None, None]
    signs = torch.tensor([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]], dtype=axes.dtype, device=axes.device)
    return from_matrix(axes[..., None, :, :] * signs[:, None, :]).to(points.dtype)
