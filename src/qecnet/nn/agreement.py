"""Moments of votes and their angles to a pose, for routing; computed in slices, with their derivatives."""

from typing import Any

import torch
from torch import Tensor

from ..algebra import Weighting, is_exporting, weiszfeld_weights
from ._slices import flat, pieces, scratch


def moments_of(votes: Tensor, weights: Tensor) -> Tensor:
    """`M = Σ w v vᵀ` (Eq. 4). (..., M, L, 4), (..., M or 1, L) → (..., M, 4, 4)."""
    if is_exporting():
        return (votes * weights[..., None]).mT @ votes
    moments: Tensor = _Moments.apply(votes, weights.expand(votes.shape[:-1]))  # type: ignore[no-untyped-call]
    return moments


def angles_to(poses: Tensor, votes: Tensor) -> Tensor:
    """δ (Eq. 3) between each output capsule and its votes. (..., M, 4), (..., M, L, 4) → (..., M, L)."""
    if is_exporting():
        cosine = (votes @ poses[..., None])[..., 0]
        across = votes - cosine[..., None] * poses[..., None, :]
        return 2 * torch.atan2((across * across).sum(-1).sqrt(), cosine.abs())
    angles: Tensor = _Angles.apply(poses, votes)  # type: ignore[no-untyped-call]
    return angles


def weigh(poses: Tensor, votes: Tensor, weighting: Weighting, exponent: float) -> Tensor:
    """σ(δ) of every vote. (..., M, 4), (..., M, L, 4) → (..., M, L)."""
    if torch.is_grad_enabled() or is_exporting():
        return weiszfeld_weights(angles_to(poses, votes), weighting, exponent)
    p, v = flat(poses, 2), flat(votes, 3)
    sigma = torch.empty(v.shape[:-1], dtype=votes.dtype, device=votes.device)
    for piece in pieces(v):
        if weighting == "sigmoid":  # which an error of 1e-3 rad near 0 hardly changes: 2 acos|c| is enough
            delta = (p[piece][..., None, :] @ v[piece].mT)[..., 0, :].abs_().clamp_(max=1).acos_().mul_(2)
        else:
            cosine, sine = _cosine_and_sine(p[piece], v[piece])
            delta = torch.atan2(sine, cosine.abs_()).mul_(2)
        sigma[piece] = weiszfeld_weights(delta, weighting, exponent)
    return sigma.view(votes.shape[:-1])


class _SavesInputs(torch.autograd.Function):
    """A function whose gradient needs its inputs."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)


class _Moments(_SavesInputs):
    """Keeps no weighted copy of the votes."""

    @staticmethod
    def forward(votes: Tensor, weights: Tensor) -> Tensor:
        v, w = flat(votes, 3), flat(weights, 2)
        moments = torch.empty(*v.shape[:-2], 4, 4, dtype=votes.dtype, device=votes.device)
        for piece in pieces(v):
            weighted = scratch(v[piece].mT.shape, v)
            torch.mul(v[piece].mT, w[piece][..., None, :], out=weighted)
            torch.matmul(weighted, v[piece], out=moments[piece])
        return moments.view(*votes.shape[:-2], 4, 4)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        votes, weights = ctx.saved_tensors
        v, w, g = flat(votes.mT, 3), flat(weights, 2), flat(grad + grad.mT, 3)
        for_votes = torch.empty_like(v, memory_format=torch.contiguous_format)
        for_weights = torch.empty(w.shape, dtype=w.dtype, device=w.device)
        for piece in pieces(v):
            both = torch.matmul(g[piece], v[piece], out=scratch(v[piece].shape, v))
            torch.mul(both[..., 0, :], v[piece][..., 0, :], out=for_weights[piece])
            for c in (1, 2, 3):
                for_weights[piece].addcmul_(both[..., c, :], v[piece][..., c, :])
            torch.mul(both, w[piece][..., None, :], out=for_votes[piece])
        return for_votes.view(votes.mT.shape).mT, for_weights.mul_(0.5).view(weights.shape)


class _Angles(_SavesInputs):
    """`δ = 2 atan2(|v − (p·v) p|, |p·v|)`: exact for small angles, where 2 acos|p·v| is not, as is its gradient."""

    @staticmethod
    def forward(poses: Tensor, votes: Tensor) -> Tensor:
        p, v = flat(poses, 2), flat(votes, 3)
        delta = torch.empty(v.shape[:-1], dtype=votes.dtype, device=votes.device)
        for piece in pieces(v):
            cosine, sine = _cosine_and_sine(p[piece], v[piece])
            torch.atan2(sine, cosine.abs_(), out=delta[piece]).mul_(2)
        return delta.view(votes.shape[:-1])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        poses, votes = ctx.saved_tensors
        p, v, g = flat(poses, 2), flat(votes, 3), flat(grad, 2)
        for_poses = torch.empty(p.shape, dtype=p.dtype, device=p.device)
        for_votes = torch.empty(v.mT.shape, dtype=v.dtype, device=v.device)
        nothing = 8 * torch.finfo(v.dtype).eps
        for piece in pieces(v):
            cosine, sine = _cosine_and_sine(p[piece], v[piece])
            # dδ = −2 sign(c)/s dc, taken along the sphere. Where δ is 0 but for rounding, the direction would be noise:
            # the smallest subgradient, 0, is taken.
            slope = (-2 * g[piece] / sine).masked_fill_(sine <= nothing, 0).mul_(torch.sign(cosine))
            along = slope * cosine
            torch.mul(slope[..., None, :], p[piece][..., None], out=for_votes[piece])
            for_votes[piece].addcmul_(along[..., None, :], v[piece].mT, value=-1)
            for_poses[piece] = (slope[..., None, :] @ v[piece])[..., 0, :]
            for_poses[piece].addcmul_(along.sum(-1, keepdim=True), p[piece], value=-1)
        return for_poses.view(poses.shape), for_votes.view(votes.mT.shape).mT


def _cosine_and_sine(poses: Tensor, votes: Tensor) -> tuple[Tensor, Tensor]:
    cosine = (poses[..., None, :] @ votes.mT)[..., 0, :]
    square, across = torch.zeros_like(cosine), scratch(cosine.shape, cosine)
    for pose, vote in zip(poses.unbind(-1), votes.unbind(-1), strict=True):
        torch.addcmul(vote, cosine, pose[..., None], value=-1, out=across)
        square.addcmul_(across, across)
    return cosine, square.sqrt_()
