"""The frames of a whole cloud: its principal axes, with each choice of their signs that makes a rotation."""

import math

import torch
from torch import Tensor

from ..algebra import grad_where

_SWEEPS = 5
"""Four leave nothing of a matrix's other entries in float64, and one is to spare."""


def principal_frames(points: Tensor) -> Tensor:
    """(..., N, 3) → (..., 4, 4), quaternions WXYZ, frame to world.

    The axes are in order of increasing variance. As a set, the four frames rotate with the cloud; their order is
    arbitrary, so that results must not depend on it. Where two variances are equal, the axes are any of their plane.
    """
    with grad_where(False):
        offsets = points.double() - points.double().mean(-2, keepdim=True)
        w, x, y, z = eigenvector_rotation(offsets.mT @ offsets)
        half_turns = (w, x, y, z), (-x, w, z, -y), (-y, -z, w, x), (-z, y, -x, w)
        return torch.stack([torch.stack(q, -1) for q in half_turns], -2).to(points.dtype)


def eigenvector_rotation(matrix: Tensor) -> list[Tensor]:
    """The rotation whose columns are the eigenvectors of a symmetric matrix (..., 3, 3), in order of increasing
    eigenvalue: the components w, x, y, z of its quaternion, (...) each.

    Jacobi's method: each step rotates two axes until the matrix has a 0 between them. It is a fixed number of plain
    operations, which other runtimes have, too, and the rotation is a quaternion from the beginning.
    """
    diagonal = [matrix[..., i, i] for i in range(3)]
    off = [matrix[..., 1, 2], matrix[..., 2, 0], matrix[..., 0, 1]]  # between the two other axes
    nothing, one = torch.zeros_like(diagonal[0]), torch.ones_like(diagonal[0])
    q = [one, nothing, nothing, nothing]
    for _ in range(_SWEEPS):
        for a, b, c in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            between = off[c]
            ratio = (diagonal[b] - diagonal[a]) / torch.where(between == 0, 1.0, 2 * between)
            tangent = torch.where(ratio < 0, -1.0, 1.0) / (ratio.abs() + torch.sqrt(1 + ratio * ratio))
            tangent = torch.where(between == 0, 0.0, tangent)
            cosine = torch.rsqrt(1 + tangent * tangent)
            sine = tangent * cosine
            diagonal[a], diagonal[b] = diagonal[a] - tangent * between, diagonal[b] + tangent * between
            off[a], off[b], off[c] = cosine * off[a] + sine * off[b], cosine * off[b] - sine * off[a], nothing
            half = torch.sqrt((1 + cosine) / 2)
            q = _turned_back(q, (a, b, c), half, sine / (2 * half))
    eighth = one * math.sqrt(0.5)  # half of a quarter turn
    for a, b, c in ((0, 1, 2), (1, 2, 0), (0, 1, 2)):
        swapped = diagonal[a] > diagonal[b]
        low, high = torch.minimum(diagonal[a], diagonal[b]), torch.maximum(diagonal[a], diagonal[b])
        diagonal[a], diagonal[b] = low, high
        q = _turned_back(q, (a, b, c), torch.where(swapped, eighth, one), torch.where(swapped, eighth, nothing))
    return q


def _turned_back(q: list[Tensor], axes: tuple[int, int, int], cosine: Tensor, sine: Tensor) -> list[Tensor]:
    """`q ∘ (cosine, −sine e_c)` for axes (a, b, c) in the order of (x, y, z)."""
    w, vector = q[0], q[1:]
    a, b, c = axes
    turned = [w, w, w]
    turned[a], turned[b] = vector[a] * cosine - vector[b] * sine, vector[b] * cosine + vector[a] * sine
    turned[c] = vector[c] * cosine - w * sine
    return [w * cosine + vector[c] * sine, *turned]
