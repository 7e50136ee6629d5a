"""Votes `v_ij = q_i ∘ t_ij`, the first loop of Algorithm 1, for all pairs of input and output capsules at once."""

from typing import Any

import torch
from torch import Tensor

from ..algebra import is_exporting, multiply
from ._slices import flat, pieces, scratch


def cast_votes(poses: Tensor, transforms: Tensor) -> Tensor:
    """poses q_i (..., L, 4), transforms t_ij (..., M, L, 4), WXYZ → unit votes (..., M, L, 4).

    Transforms are given as the kernel regresses them and are normalised here; zero counts as the identity. The votes
    are stored components first, (..., M, 4, L), which is the fastest layout for routing.
    """
    if is_exporting():
        product = multiply(poses[..., None, :, :], transforms)
        length = (product * product).sum(-1, keepdim=True).sqrt()
        return torch.where(length == 0, poses[..., None, :, :], product / torch.where(length == 0, 1.0, length))
    votes, _ = _Votes.apply(poses, transforms)  # type: ignore[no-untyped-call]
    return votes  # type: ignore[no-any-return]


class _Votes(torch.autograd.Function):
    """The normalised Hamilton product with its derivative written out, so that nothing but the votes is kept for it."""

    @staticmethod
    def forward(poses: Tensor, transforms: Tensor) -> tuple[Tensor, Tensor]:
        q, t = flat(poses.mT, 2)[:, None], flat(transforms.mT, 3)
        votes = torch.empty_like(t, memory_format=torch.contiguous_format)
        inverse = torch.empty_like(votes[..., 0, :])
        for piece in pieces(t):
            v, length = votes[piece], inverse[piece]
            _multiply(q[piece], t[piece], v)
            torch.mul(v[..., 0, :], v[..., 0, :], out=length)
            for c in (1, 2, 3):
                length.addcmul_(v[..., c, :], v[..., c, :])
            zero = length == 0
            v.mul_(length.rsqrt_().masked_fill_(zero, 0)[..., None, :])
            v.addcmul_(q[piece], zero[..., None, :].to(v.dtype))
        shape = transforms.mT.shape
        return votes.view(shape).mT, inverse.view(*shape[:-2], shape[-1])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(inputs[0], *output)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
        poses, votes, inverse = ctx.saved_tensors
        q, v, g = flat(poses.mT, 2)[:, None], flat(votes.mT, 3), flat(grad.mT, 3)
        inverse = flat(inverse, 2)
        for_poses, for_transforms = torch.zeros_like(q), torch.empty_like(v)
        for piece in pieces(v):
            along = scratch(inverse[piece].shape, v)
            torch.mul(v[piece][..., 0, :], g[piece][..., 0, :], out=along)
            for c in (1, 2, 3):
                along.addcmul_(v[piece][..., c, :], g[piece][..., c, :])
            across = torch.addcmul(g[piece], along[..., None, :], v[piece], value=-1)
            if ctx.needs_input_grad[0]:  # Σ g ∘ t̄ with t = q̄ ∘ v
                turned = scratch(across.shape, v)
                _multiply(across, _conjugate(v[piece]), turned)
                _multiply(turned.sum(1, keepdim=True), q[piece], for_poses[piece])
            _multiply(_conjugate(q[piece]), across.mul_(inverse[piece][..., None, :]), for_transforms[piece])
        return for_poses.view(poses.mT.shape).mT, for_transforms.view(votes.mT.shape).mT


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
    return torch.cat((q[..., :1, :], -q[..., 1:, :]), dim=-2)
