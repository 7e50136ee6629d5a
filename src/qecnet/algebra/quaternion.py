"""Unit quaternions as rotations (Sec. 3.2 of the paper).

Everywhere: **WXYZ, Hamilton, unit**, last axis 4; `q` and `−q` are the same rotation; leading axes are batch axes and
broadcast. `rotate(q, x)` is `q ∘ x`: it maps a vector from frame coordinates to world coordinates.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ._check import check_last, check_quaternion, is_checking
from .eigen import dominant_eigenvector


def multiply(p: Tensor, q: Tensor) -> Tensor:
    """Multiply quaternions: the Hamilton product `p ∘ q` (Dfn. 3), the rotation by `q` followed by that by `p`.

    Args:
        p: (..., 4) WXYZ.
        q: (..., 4) WXYZ.

    Returns:
        (..., 4) WXYZ.
    """
    check_quaternion("p", p)
    check_quaternion("q", q)
    pw, px, py, pz = p.unbind(-1)
    qw, qx, qy, qz = q.unbind(-1)
    return torch.stack(
        (
            pw * qw - px * qx - py * qy - pz * qz,
            pw * qx + px * qw + py * qz - pz * qy,
            pw * qy - px * qz + py * qw + pz * qx,
            pw * qz + px * qy - py * qx + pz * qw,
        ),
        dim=-1,
    )


def identity_like(x: Tensor) -> Tensor:
    """Get the identity rotation.

    Args:
        x: any tensor, whose dtype and device the result has.

    Returns:
        (4,) WXYZ.
    """
    return torch.eye(4, dtype=x.dtype, device=x.device)[0]


def conjugate(q: Tensor) -> Tensor:
    """Invert rotations: the conjugate `q̄` of unit quaternions.

    Args:
        q: (..., 4) WXYZ.

    Returns:
        (..., 4) WXYZ.
    """
    check_quaternion("q", q)
    return torch.cat((q[..., :1], -q[..., 1:]), dim=-1)


def rotate(q: Tensor, x: Tensor) -> Tensor:
    """Rotate vectors: `q ∘ x`, from frame coordinates to world coordinates.

    Args:
        q: (..., 4) WXYZ.
        x: (..., 3).

    Returns:
        (..., 3).
    """
    check_quaternion("q", q)
    check_last("x", x, 3)
    w = q[..., :1]
    v, x = torch.broadcast_tensors(q[..., 1:], x)  # type: ignore[no-untyped-call]
    t: Tensor = 2 * torch.linalg.cross(v, x)
    rotated: Tensor = x + w * t + torch.linalg.cross(v, t)
    return rotated


def left_matrix(q: Tensor) -> Tensor:
    """Convert quaternions to the paper's matrices `T(q)` (Dfn. 4), with `T(g) q = g ∘ q`.

    Args:
        q: (..., 4) WXYZ.

    Returns:
        (..., 4, 4), orthonormal, with determinant 1.
    """
    check_quaternion("q", q)
    w, x, y, z = q.unbind(-1)
    return torch.stack((w, -x, -y, -z, x, w, -z, y, y, z, w, -x, z, -y, x, w), dim=-1).view(*q.shape[:-1], 4, 4)


def to_matrix(q: Tensor) -> Tensor:
    """Convert quaternions to rotation matrices R, with `R x = q ∘ x`.

    Args:
        q: (..., 4) WXYZ.

    Returns:
        (..., 3, 3).
    """
    check_quaternion("q", q)
    w, x, y, z = q.unbind(-1)
    return torch.stack(
        (
            1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
            2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
            2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
        ),
        dim=-1,
    ).view(*q.shape[:-1], 3, 3)  # fmt: skip


def from_matrix(matrix: Tensor, *, orthonormal: bool = False) -> Tensor:
    """Convert rotation matrices to quaternions; of any other matrix, the nearest rotation (Frobenius norm) is taken.

    For a rotation, the symmetric matrix below is exactly `4 q qᵀ`, so `q` is its dominant eigenvector (Davenport).
    This has no special cases and is smooth everywhere, half turns included.

    Warning: a reflection has no quaternion; the result for one is some rotation (an error inside `checking()`).

    Args:
        matrix: (..., 3, 3).
        orthonormal: whether all matrices are rotations up to rounding. This is faster: the column with the largest
            diagonal entry is then proportional to the eigenvector.

    Returns:
        (..., 4) WXYZ, of unspecified sign.
    """
    check_last("matrix", matrix, 3, 3)
    if is_checking() and bool((torch.linalg.det(matrix) <= 0).any()):
        raise ValueError(
            f"matrix of shape {tuple(matrix.shape)} has a determinant that is not positive, so it is not a rotation"
        )
    a, b, c, d, e, f, g, h, i = matrix.flatten(-2).unbind(-1)
    outer = torch.stack(
        (
            1 + a + e + i, h - f, c - g, d - b,
            h - f, 1 + a - e - i, b + d, c + g,
            c - g, b + d, 1 - a + e - i, f + h,
            d - b, c + g, f + h, 1 - a - e + i,
        ),
        dim=-1,
    ).view(*matrix.shape[:-2], 4, 4)  # fmt: skip
    if not orthonormal:
        return dominant_eigenvector(outer)
    largest = outer.diagonal(dim1=-2, dim2=-1).argmax(-1)[..., None, None].expand(*matrix.shape[:-2], 1, 4)
    return normalize(outer.gather(-2, largest).squeeze(-2), dim=-1)


def from_rotvec(rotvec: Tensor) -> Tensor:
    """Convert rotation vectors to quaternions.

    Args:
        rotvec: (..., 3), axis times angle in radians.

    Returns:
        (..., 4) WXYZ.
    """
    check_last("rotvec", rotvec, 3)
    half = torch.linalg.vector_norm(rotvec, dim=-1, keepdim=True) / 2
    return torch.cat((torch.cos(half), torch.sinc(half / torch.pi) * rotvec / 2), dim=-1)


def from_azimuth(angle: Tensor) -> Tensor:
    """Convert angles to quaternions: rotations about the z axis.

    Args:
        angle: (...), in radians.

    Returns:
        (..., 4) WXYZ.
    """
    half, zero = angle / 2, torch.zeros_like(angle)
    return torch.stack((half.cos(), zero, zero, half.sin()), dim=-1)


def random_quaternion(
    shape: int | Sequence[int],
    generator: torch.Generator | int,
    *,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Sample rotations uniformly from SO(3).

    Args:
        shape: of the batch.
        generator: the source of randomness, whose device the result is on; or a seed.
        dtype: of the result.

    Returns:
        (*shape, 4) WXYZ.
    """
    if isinstance(generator, int):
        generator = torch.Generator().manual_seed(generator)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    normal = torch.randn((*shape, 4), generator=generator, dtype=dtype, device=generator.device)
    return normalize(normal, dim=-1)


def canonicalize(q: Tensor) -> Tensor:
    """Choose between `q` and `−q`, the same rotation: the one with w > 0, on the northern hemisphere.

    On the equator (w = 0) it is the one whose first non-zero component among x, y, z is positive.

    Args:
        q: (..., 4) WXYZ.

    Returns:
        (..., 4) WXYZ.
    """
    check_quaternion("q", q)
    sign = torch.ones_like(q[..., 0])
    for component in reversed(q.detach().unbind(-1)):
        sign = torch.where(component == 0, sign, torch.sign(component))
    return q * sign[..., None]


def angular_distance(p: Tensor, q: Tensor) -> Tensor:
    """Compute the angle between rotations, `δ = 2 acos|⟨p, q⟩|` (Eq. 3).

    Computed as `4 atan2(|p − q|, |p + q|)`, which is accurate near 0 and near π. The gradient has length 2 everywhere
    except where the distance has a kink: at δ = 0 it is 0 (the smallest subgradient), at δ = π it is that of one of
    the two shortest paths.

    Args:
        p: (..., 4) WXYZ.
        q: (..., 4) WXYZ.

    Returns:
        (...) in radians, from 0 to π.
    """
    check_quaternion("p", p)
    check_quaternion("q", q)
    return angle_between(p, q)


def angle_between(p: Tensor, q: Tensor) -> Tensor:
    """Compute `angular_distance` without checking the arguments."""
    q = torch.where(((p * q).sum(-1, keepdim=True) < 0), -q, q)
    delta = 4 * torch.atan2(torch.linalg.vector_norm(p - q, dim=-1), torch.linalg.vector_norm(p + q, dim=-1))
    # Rounding can take a half turn past π, where 1 − δ/π would be negative; the gradient there is kept as it is.
    return delta - (delta.detach() - torch.pi).clamp_min(0)


def nearest_with_up(q: Tensor, up: Tensor) -> Tensor:
    """Find the rotation nearest to `q` that maps the z axis to `up`.

    Rotations that map z to a direction are the unit quaternions of a plane; `q` is projected onto it. The result
    differs from `q` by the angle between `q ∘ z` and `up`. Where these are opposite, all such rotations are equally
    near, and the result is `q` after a half turn about its own x axis. Rotating both arguments rotates the result.

    Args:
        q: (..., 4) WXYZ.
        up: (..., 3), directions of any length above 0.

    Returns:
        (..., 4) WXYZ.
    """
    check_quaternion("q", q)
    check_last("up", up, 3)
    x, y, z = normalize(up, dim=-1).unbind(-1)
    zero = torch.zeros_like(x)
    # One element of the plane: the smallest rotation from z, or from −z after half a turn about x.
    upper, lower = torch.stack((1 + z, -y, x, zero), -1), torch.stack((-y, 1 - z, zero, x), -1)
    first = normalize(torch.where((z >= 0)[..., None], upper, lower), dim=-1)
    w, i, j, k = first.unbind(-1)
    second = torch.stack((-k, j, -i, w), -1)  # after half a turn about z
    first, second, q = torch.broadcast_tensors(first, second, q)  # type: ignore[no-untyped-call]
    w, i, j, k = q.unbind(-1)
    opposite = torch.stack((-i, w, k, -j), -1)
    found = _project(q, first, second)
    tiny = 8 * torch.finfo(q.dtype).eps
    lost = torch.linalg.vector_norm(found, dim=-1, keepdim=True) <= tiny
    return normalize(torch.where(lost, _project(opposite, first, second), found), dim=-1)


def _project(q: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Project `q` onto the plane of two orthonormal vectors."""
    return (q * first).sum(-1, keepdim=True) * first + (q * second).sum(-1, keepdim=True) * second
