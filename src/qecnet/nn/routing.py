"""Quaternion equivariant dynamic routing: Algorithm 1 of the paper.

Votes are stored components first (..., M, 4, L), so that their few long loops vectorise, and handed around as
(..., M, L, 4) views of that; both layouts give the same result.
"""

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from ..algebra import Weighting, dominant_eigenvector, weiszfeld_weights
from ..algebra._check import check_quaternion, check_weights
from ._slices import pieces, scratch

Gradients = Literal["last", "all"]


class Routed(NamedTuple):
    """What routing gives: poses (..., M, 4) WXYZ, activations (..., M), the weights (..., M, L) of the last mean."""

    poses: Tensor
    activations: Tensor
    weights: Tensor


def route(
    votes: Tensor,
    activations: Tensor,
    iterations: int = 3,
    weighting: Weighting = "sigmoid",
    *,
    exponent: float = 1.0,
    scale: Tensor | float = 1.0,
    shift: Tensor | float = 0.0,
    gradients: Gradients = "last",
) -> Routed:
    """Algorithm 1: `votes` v_ij (..., M, L, 4) WXYZ of L input for M output capsules, input `activations` (..., L).

    - `weighting="sigmoid"`, as printed: weight `αᵢ sigmoid(−δ)`, agreement `−mean δ`.
    - `weighting="linear"`, as released: weight `w ← w αᵢ (1 − δ/π)`, compounding, agreement `mean w (1 − δ/π)`.
    - `weighting="lq"`, Lemma 1: weight `αᵢ d^(exponent − 2)`, so that the pose is an L_q median; agreement `−mean δ`.

    The activation of an output capsule is `sigmoid(scale · agreement + shift)`. Inputs of activation 0 are masked: they
    have no part in any mean, bit for bit. A capsule with no unmasked input has the identity as pose and activation 0.

    `gradients="last"` differentiates the last mean and the agreement and takes the weights that earlier iterations led
    to as given (the release does so); `"all"` differentiates every iteration.
    """
    _check(votes, activations, iterations)
    every = gradients == "all"
    alpha = activations[..., None, :]
    weights = alpha.expand(votes.shape[:-1])
    with _grad(every or iterations == 0):
        poses = _mean(votes, weights)
    sigma = None
    for iteration in range(1, iterations + 1):
        before = weights if weighting == "linear" and iteration > 1 else None
        with _grad(every):
            sigma = _reweigh(poses, votes, weighting, exponent, before, sigma)
        with _grad(every or iteration == iterations):
            weights = alpha * sigma
            poses = _mean(votes, weights)
    return Routed(poses, _activate(poses, votes, alpha, weights, weighting, scale, shift), weights)


def _grad(enabled: bool) -> torch.set_grad_enabled:
    """Gradients where they are wanted, unless the caller has switched them off altogether."""
    return torch.set_grad_enabled(enabled and torch.is_grad_enabled())


def _reweigh(
    poses: Tensor, votes: Tensor, weighting: Weighting, exponent: float, before: Tensor | None, scratch: Tensor | None
) -> Tensor:
    """σ(δ) of every vote, times the weights `before` if these compound. → (..., M, L), in the memory of `scratch`."""
    if torch.is_grad_enabled():
        sigma = weiszfeld_weights(_Angles.apply(poses, votes), weighting, exponent)  # type: ignore[no-untyped-call]
        return sigma if before is None else sigma * before
    out = torch.empty(votes.shape[:-1], dtype=votes.dtype, device=votes.device) if scratch is None else scratch
    p, v, o = poses.flatten(0, -3), votes.flatten(0, -4), out.flatten(0, -3)
    for piece in pieces(v):
        if weighting == "lq":  # its weights are largest where 2 acos|c| is least exact
            cosine, sine = _cosine_and_sine(p[piece], v[piece])
            delta = torch.atan2(sine, cosine.abs_()).mul_(2)
        else:
            delta = (p[piece][..., None, :] @ v[piece].mT)[..., 0, :].abs_().clamp_(max=1).acos_().mul_(2)
        o[piece] = weiszfeld_weights(delta, weighting, exponent)
    return out if before is None else out.mul_(before)


def _activate(
    poses: Tensor,
    votes: Tensor,
    alpha: Tensor,
    weights: Tensor,
    weighting: Weighting,
    scale: Tensor | float,
    shift: Tensor | float,
) -> Tensor:
    """`sigmoid(scale · agreement + shift)`, the mean taken over the unmasked votes. → (..., M)."""
    delta = _Angles.apply(poses, votes)  # type: ignore[no-untyped-call]
    unmasked = (alpha > 0).to(votes.dtype)
    count = unmasked.sum(-1)
    if weighting == "linear":
        total = _sum_of_products(weights, 1 - delta / torch.pi)
    else:
        total = -_sum_of_products(unmasked.expand_as(delta), delta)
    agreement = total / count.clamp_min(1)
    return torch.where(count > 0, torch.sigmoid(scale * agreement + shift), 0.0)


def _mean(votes: Tensor, weights: Tensor) -> Tensor:
    """The weighted mean of Eq. 4. (..., M, L, 4), (..., M or 1, L) → (..., M, 4)."""
    moments = _Moments.apply(votes, weights.expand(votes.shape[:-1]))  # type: ignore[no-untyped-call]
    return dominant_eigenvector(moments, semidefinite=True)


class _Moments(torch.autograd.Function):
    """`M = Σ w v vᵀ` in pieces, keeping no weighted copy of the votes. (..., M, L, 4), (..., M, L) → (..., M, 4, 4)."""

    @staticmethod
    def forward(votes: Tensor, weights: Tensor) -> Tensor:
        v, w = votes.flatten(0, -4), weights.flatten(0, -3)
        moments = []
        for piece in pieces(v):
            weighted = scratch(v[piece].mT.shape, v)
            torch.mul(v[piece].mT, w[piece][..., None, :], out=weighted)
            moments.append(weighted @ v[piece])
        return torch.cat(moments).view(*votes.shape[:-2], 4, 4)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        votes, weights = ctx.saved_tensors
        v, w = votes.mT.flatten(0, -4), weights.flatten(0, -3)
        g = (grad + grad.mT).flatten(0, -4)
        for_votes, for_weights = torch.empty_like(v), torch.empty_like(w)
        for piece in pieces(v):
            both = torch.matmul(g[piece], v[piece], out=scratch(v[piece].shape, v))
            torch.mul(both[..., 0, :], v[piece][..., 0, :], out=for_weights[piece])
            for c in (1, 2, 3):
                for_weights[piece].addcmul_(both[..., c, :], v[piece][..., c, :])
            torch.mul(both, w[piece][..., None, :], out=for_votes[piece])
        return for_votes.view(votes.mT.shape).mT, for_weights.mul_(0.5).view(weights.shape)


def _sum_of_products(x: Tensor, y: Tensor) -> Tensor:
    """`Σ x y` over the last axis, in an order in which zeros make no difference."""
    return (x[..., None, :] @ y[..., :, None])[..., 0, 0]


class _Angles(torch.autograd.Function):
    """δ of Eq. 3 between each output capsule and its votes. (..., M, 4), (..., M, L, 4) → (..., M, L).

    `δ = 2 atan2(|v − (p·v) p|, |p·v|)` is exact for small angles, where 2 acos|p·v| is not, and so is its gradient.
    """

    @staticmethod
    def forward(poses: Tensor, votes: Tensor) -> Tensor:
        p, v = poses.flatten(0, -3), votes.flatten(0, -4)
        delta = torch.empty(v.shape[:-1], dtype=votes.dtype, device=votes.device)
        for piece in pieces(v):
            cosine, sine = _cosine_and_sine(p[piece], v[piece])
            torch.atan2(sine, cosine.abs_(), out=delta[piece]).mul_(2)
        return delta.view(votes.shape[:-1])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        poses, votes = ctx.saved_tensors
        p, v, g = poses.flatten(0, -3), votes.flatten(0, -4), grad.flatten(0, -3)
        for_poses, for_votes = torch.empty_like(p), torch.empty_like(v.mT)
        for piece in pieces(v):
            cosine, sine = _cosine_and_sine(p[piece], v[piece])
            # dδ = −2 sign(c)/s dc, taken along the sphere; where δ = 0 the smallest subgradient, 0, is taken.
            slope = (-2 * g[piece] / sine).masked_fill_(sine == 0, 0).mul_(torch.sign(cosine))
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


def _check(votes: Tensor, activations: Tensor, iterations: int) -> None:
    check_quaternion("votes", votes)
    if votes.dim() < 3 or votes.shape[-2] == 0:
        raise ValueError(f"votes has shape {tuple(votes.shape)}; its shape must be (..., M, L, 4) with L ≥ 1")
    if activations.shape != (*votes.shape[:-3], votes.shape[-2]):
        raise ValueError(
            f"activations has shape {tuple(activations.shape)}; "
            f"for these votes it must be {(*votes.shape[:-3], votes.shape[-2])}"
        )
    if iterations < 0:
        raise ValueError(f"iterations is {iterations}; it must be at least 0")
    check_weights("activations", activations)
