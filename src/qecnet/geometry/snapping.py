"""Snap a pose's axes to the directions that a shape's normals share: walls, seats, table tops.

The objective is `Σᵢ wᵢ Σₖ (rₖ · nᵢ)⁴` over rotations with the columns rₖ: 1 where every normal lies along an axis, 3/5
for normals in all directions. It depends on the normals only through their fourth moment, 9 × 9 numbers, so that a step
costs the same for any number of normals. The sign of a normal does not matter.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import normalize

from qecnet.algebra import is_exporting, left_matrix, multiply, to_matrix
from qecnet.compiled import is_compiled
from qecnet.geometry._compiled import climb_compiled

EVIDENCE = 0.1
"""Normals decide a rotation about an axis when the objective's curvature about it, over 4, is at least this.

That is the mean of `ρ⁴ cos 4φ`, with ρ and φ a normal's polar coordinates in the plane across the axis: 2/3 for a cube,
0 for a sphere and about a cylinder's axis. A thousand random normals rarely exceed 0.05.
"""

_STEPS = 20
_SQUARINGS = 2  # of Davenport's matrix in each step; more does not save steps
_TINY = 1e-30

# ⟨R(q), G⟩ = qᵀ K q is linear in G and quadratic in q; eᵢ · (q ∘ eⱼ) = (eᵢ q) · (q eⱼ) gives the matrices K of unit G.
_UNITS = torch.eye(4, dtype=torch.float64, device="cpu")
_RIGHT = multiply(_UNITS, _UNITS[1:, None])
_DAVENPORT = torch.einsum("iba,jcb->jiac", left_matrix(_UNITS[1:]), _RIGHT).reshape(9, 16)  # by column of R


def snap_pose(pose: Tensor, normals: Tensor, weights: Tensor | None = None) -> Tensor:
    """Rotate poses to the nearest local maximum of `Σᵢ wᵢ Σₖ (rₖ · nᵢ)⁴`, as far as the normals decide it.

    The curvature about each axis of the maximum says what the normals decide (see `EVIDENCE`). If that is every
    rotation, the maximum is returned; if it is all but the rotation about one axis (a bottle, a flat sheet), that axis
    is snapped by the smallest rotation; otherwise (a sphere, a plant) the pose is returned unchanged.

    Args:
        pose: (..., 4) unit quaternions, WXYZ, frame to world.
        normals: (..., N, 3) unit normals of either sign; a row of zeros is an unknown normal. Leading axes broadcast
            with those of `pose`: many poses of one shape are `pose` (P, 4) with `normals` (N, 3).
        weights: (..., N), at least 0; 0 masks a normal. All 1 by default.

    Returns:
        (..., 4) unit quaternions, detached.
    """
    with torch.no_grad():
        return snap_to_moment(pose, fourth_moment(normals, weights))


def fourth_moment(normals: Tensor, weights: Tensor | None = None) -> Tensor:
    """Weighted mean of n ⊗ n ⊗ n ⊗ n as (..., 9, 9); zeros where no normal has a weight.

    Args:
        normals: (..., N, 3) unit vectors or rows of zeros.
        weights: (..., N), or None for all 1.
    """
    if normals.shape[-1] != 3 or normals.dim() < 2:
        raise ValueError(f"normals have the shape {tuple(normals.shape)}; give (..., N, 3)")
    if weights is None:
        weights = torch.ones_like(normals[..., 0])
    elif weights.shape[-1] != normals.shape[-2]:
        raise ValueError(
            f"weights have the shape {tuple(weights.shape)} for normals of {tuple(normals.shape)}; give one per normal"
        )
    normals = torch.where(weights[..., None] == 0, 0, normals)
    squares = (normals[..., :, None] * normals[..., None, :]).flatten(-2)
    moment = squares.mT @ (weights[..., None].to(normals) * squares)
    total = moment[..., ::4, ::4].sum((-2, -1), keepdim=True)  # Σ w |n|⁴
    return moment / torch.where(total == 0, 1, total)


def snap_to_moment(pose: Tensor, moment: Tensor) -> Tensor:
    """`snap_pose` for poses (..., 4) and a result of `fourth_moment`, (..., 9, 9)."""
    leading = torch.broadcast_shapes(pose.shape[:-1], moment.shape[:-2])  # type: ignore[no-untyped-call]
    pose = pose.expand(*leading, 4).contiguous()
    return _keep_undecided(pose, climb(pose, moment), moment)


def climb(pose: Tensor, moment: Tensor) -> Tensor:
    """Steps towards a maximum for poses (..., 4) and a fourth moment (..., 9, 9); the objective never decreases.

    The objective is convex in the matrix, so a rotation with a larger product with its gradient has a larger value.
    Such a rotation is found by the power method on Davenport's matrix, from the pose itself: unlike a singular value
    decomposition, it does not change what a gradient of low rank leaves undecided.
    """
    if _is_compiled_for(pose, moment):
        return climb_compiled(pose, moment, _STEPS, _SQUARINGS)
    davenport, identity = _DAVENPORT.to(pose), torch.eye(4, dtype=pose.dtype, device=pose.device)
    leading = pose.shape[:-1]
    for _ in range(_STEPS):
        axes = ((pose[..., :, None] * pose[..., None, :]).view(*leading, 16) @ davenport.mT).view(*leading, 3, 3)
        gradient = ((_squares(axes) @ moment).view(*leading, 3, 3, 3) @ axes[..., None]).view(*leading, 9)
        # Eigenvalues are at least −√2 |G|: shifted by that, none is negative.
        size = math.sqrt(2) * torch.linalg.vector_norm(gradient, dim=-1)[..., None, None]
        product = (gradient @ davenport).view(*leading, 4, 4) / size.clamp_min(_TINY) + identity
        for _ in range(_SQUARINGS):
            product = product @ product
        pose = normalize((product @ pose[..., None])[..., 0], dim=-1)
    return pose


def _is_compiled_for(pose: Tensor, moment: Tensor) -> bool:
    return (
        pose.dtype == moment.dtype == torch.float64
        and pose.device.type == moment.device.type == "cpu"
        and (moment.dim() == 2 or moment.shape[:-2] == pose.shape[:-1])
        and not is_exporting()
        and not torch.compiler.is_compiling()
        and is_compiled()
    )


def alignments(pose: Tensor, moment: Tensor) -> Tensor:
    """Means of `(rⱼ · n)² (rₖ · n)²` as (..., 3, 3) for poses (..., 4); the objective is the trace."""
    squares = _squares(to_matrix(pose).mT)
    return squares @ moment @ squares.mT


def evidence(pose: Tensor, moment: Tensor) -> Tensor:
    """How well the normals decide a rotation about each axis of poses (..., 4): (..., 3), compared with `EVIDENCE`."""
    a = alignments(pose, moment)
    along = torch.stack((a[..., 0, 0], a[..., 1, 1], a[..., 2, 2]), dim=-1)  # ONNX mistakes the type of `diagonal`
    across = torch.stack((a[..., 1, 2], a[..., 2, 0], a[..., 0, 1]), dim=-1)
    return along.roll(1, -1) + along.roll(2, -1) - 6 * across


def _keep_undecided(pose: Tensor, snapped: Tensor, moment: Tensor) -> Tensor:
    """Take from `snapped` what the normals decide, and the rest from `pose`."""
    decided = evidence(snapped, moment) >= EVIDENCE
    count = decided.sum(-1, keepdim=True)
    free = (~decided).to(pose.dtype)[..., None]  # selects the axis, if there is exactly one
    before, after = (to_matrix(pose) @ free)[..., 0], (to_matrix(snapped) @ free)[..., 0]
    # From one unit vector to another within a right angle: the smallest rotation.
    cosine = (before * after).sum(-1, keepdim=True)
    smallest = normalize(torch.cat((1 + cosine, torch.linalg.cross(before, after)), dim=-1), dim=-1)
    tilted = multiply(smallest, pose)
    return torch.where(count == 3, snapped, torch.where(count == 2, tilted, pose))


def _squares(axes: Tensor) -> Tensor:
    """r ⊗ r for rows r: (..., 3, 3) to (..., 3, 9)."""
    return (axes[..., :, None] * axes[..., None, :]).flatten(-2)
