"""Votes `v_ij = q_i ∘ t_ij`, the first loop of Algorithm 1, for all pairs of input and output capsules at once."""

from typing import Any

import torch
from torch import Tensor

from ._slices import pieces


def cast_votes(poses: Tensor, transforms: Tensor) -> Tensor:
    """poses q_i (..., L, 4), transforms t_ij (..., M, L, 4) → votes (..., M, L, 4), all WXYZ and unit.

    The result is stored components first, (..., M, 4, L), as routing likes it.
    """
    votes: Tensor = _Votes.apply(poses, transforms)  # type: ignore[no-untyped-call]
    return votes


class _Votes(torch.autograd.Function):
    """The Hamilton product with its derivative written out, so that no intermediate product is kept for it."""

    @staticmethod
    def forward(poses: Tensor, transforms: Tensor) -> Tensor:
        q, t = poses.mT.flatten(0, -3)[:, None], transforms.mT.flatten(0, -4)
        votes = torch.empty_like(t)
        for piece in pieces(t):
            _multiply(q[piece], t[piece], votes[piece])
        return votes.view(transforms.mT.shape).mT

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        poses, transforms = ctx.saved_tensors
        q, t = poses.mT.flatten(0, -3)[:, None], transforms.mT.flatten(0, -4)
        g = grad.mT.flatten(0, -4)
        for_poses, for_transforms = torch.empty_like(q[:, 0]), torch.empty_like(t)
        buffer = torch.empty_like(t[pieces(t)[0]])
        for piece in pieces(t):
            if ctx.needs_input_grad[0]:
                scratch = buffer[: len(t[piece])]
                _multiply(g[piece], _conjugate(t[piece]), scratch)
                torch.sum(scratch, 1, out=for_poses[piece])
            _multiply(_conjugate(q[piece]), g[piece], for_transforms[piece])
        return for_poses.view(poses.mT.shape).mT, for_transforms.view(transforms.mT.shape).mT


def _multiply(p: Tensor, q: Tensor, out: Tensor) -> None:
    """Hamilton product with components on the axis before the last: (..., 4, L), (..., 4, L) → out (..., 4, L)."""
    pw, px, py, pz = p.unbind(-2)
    qw, qx, qy, qz = q.unbind(-2)
    w, x, y, z = out.unbind(-2)
    torch.mul(pw, qw, out=w).addcmul_(px, qx, value=-1).addcmul_(py, qy, value=-1).addcmul_(pz, qz, value=-1)
    torch.mul(pw, qx, out=x).addcmul_(px, qw).addcmul_(py, qz).addcmul_(pz, qy, value=-1)
    torch.mul(pw, qy, out=y).addcmul_(px, qz, value=-1).addcmul_(py, qw).addcmul_(pz, qx)
    torch.mul(pw, qz, out=z).addcmul_(px, qy).addcmul_(py, qx, value=-1).addcmul_(pz, qw)


def _conjugate(q: Tensor) -> Tensor:
    return q * q.new_tensor((1.0, -1.0, -1.0, -1.0))[:, None]
