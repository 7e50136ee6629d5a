"""Quaternion equivariant dynamic routing: Algorithm 1 of the paper.

Votes are stored components first (..., M, 4, L), so that their few long loops vectorise, and handed around as
(..., M, L, 4) views of that; both layouts give the same result.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from ..algebra import (
    Weighting,
    check_quaternion,
    check_weights,
    dominant_eigenvector,
    grad_where,
    identity_like,
    is_checking,
)
from .agreement import angles_to, moments_of, weigh
from .field_limits import check_at_most
from .network import NetworkConfig
from .tracing import VotingRound

Gradients = Literal["last", "all"]


class Routed(NamedTuple):
    """The result of routing L votes to each of M output capsules.

    Attributes:
        poses: (..., M, 4), WXYZ.
        activations: (..., M).
        weights: (..., M, L), of the votes in the last mean.
    """

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
    """Route votes to the poses and activations of output capsules (Algorithm 1).

    - `weighting="sigmoid"`, as printed: weight `αᵢ sigmoid(−δ)`, agreement `−mean δ`.
    - `weighting="linear"`, as released: weight `w ← w αᵢ (1 − δ/π)`, compounding, agreement `mean w (1 − δ/π)`.
    - `weighting="lq"`, Lemma 1: weight `αᵢ d^(exponent − 2)`, so that the pose is an L_q median; agreement `−mean δ`.

    The activation of an output capsule is `sigmoid(scale · agreement + shift)`. Inputs of activation 0 are masked: they
    have no part in any mean, bit for bit. A capsule with no unmasked input has the identity as pose and activation 0.

    Args:
        votes: v_ij (..., M, L, 4), WXYZ, of L input capsules for M output capsules.
        activations: (..., L), of the input capsules.
        iterations: number of iterations.
        weighting: how a vote's distance δ from the mean changes its weight.
        exponent: q, for `weighting="lq"`.
        scale: of the agreement.
        shift: added to the scaled agreement.
        gradients: "last" differentiates the last mean and the agreement and takes the weights that earlier iterations
            led to as given; "all" differentiates every iteration. The default is the release's, and cheaper. Which
            learns better is not settled: in `results/gradients.csv` (`benchmarks/compare_gradients.py`, three seeds)
            "all" is ahead by less than its spread over seeds.

    Returns:
        Poses, activations and weights of the output capsules.
    """
    check_routing(iterations, weighting, exponent, gradients)
    _check(votes, activations)
    every = gradients == "all"
    alpha = activations[..., None, :]
    weights = alpha.expand(votes.shape[:-1])
    with grad_where(every or iterations == 0):
        poses = _mean(votes, weights)
    for iteration in range(1, iterations + 1):
        with grad_where(every):
            sigma = weigh(poses, votes, weighting, exponent)
            if weighting == "linear" and iteration > 1:
                sigma = sigma * weights
        with grad_where(every or iteration == iterations):
            weights = alpha * sigma
            poses = _mean(votes, weights)
    agreement, unmasked = _agreement(poses, votes, alpha, weights, weighting)
    return Routed(poses, activation_of(agreement, unmasked, scale, shift), weights)


def activation_of(agreement: Tensor, unmasked: Tensor, scale: Tensor | float, shift: Tensor | float) -> Tensor:
    """The activation of output capsules by the agreement of their votes, (..., M); 0 where there are none, (..., 1)."""
    return torch.where(unmasked, torch.sigmoid(scale * agreement + shift), 0.0)


def _mean(votes: Tensor, weights: Tensor) -> Tensor:
    """The weighted mean of Eq. 4. (..., M, L, 4), (..., M, L) → (..., M, 4)."""
    return dominant_eigenvector(moments_of(votes, weights), semidefinite=True)


def _agreement(
    poses: Tensor, votes: Tensor, alpha: Tensor, weights: Tensor, weighting: Weighting
) -> tuple[Tensor, Tensor]:
    """How well the votes agree with the resulting poses, (..., M), and whether there are unmasked votes, (..., 1).

    Algorithm 1 prints 1/K before its sum over L = Nc·K votes; the mean over the unmasked ones is taken, so that
    neither the number of channels nor padding changes the scale.
    """
    delta = angles_to(poses, votes)
    unmasked = (alpha > 0).to(votes.dtype)
    count = unmasked.sum(-1)
    if weighting == "linear":
        total = _sum_of_products(weights, 1 - delta / torch.pi)
    else:
        total = -_sum_of_products(unmasked.expand_as(delta), delta)
    return total / count.clamp_min(1), count > 0


def _sum_of_products(x: Tensor, y: Tensor) -> Tensor:
    """`Σ x y` over the last axis, in an order in which zeros make no difference."""
    return (x[..., None, :] @ y[..., :, None])[..., 0, 0]


def check_routing(iterations: int, weighting: Weighting, exponent: float, gradients: Gradients) -> None:
    """Raise a ValueError for invalid settings of routing, also when a module or a network is created."""
    if iterations < 0:
        raise ValueError(f"iterations is {iterations}; it must be at least 0")
    for name, value, choices in (
        ("weighting", weighting, get_args(Weighting)),
        ("gradients", gradients, get_args(Gradients)),
    ):
        if value not in choices:
            raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(choices)}")
    if not 1 <= exponent <= 2:
        raise ValueError(f"exponent is {exponent}; an L_q median needs 1 ≤ exponent ≤ 2")


def _check(votes: Tensor, activations: Tensor) -> None:
    if votes.dim() < 3 or votes.shape[-2] == 0 or votes.shape[-1] != 4:
        raise ValueError(f"votes has shape {tuple(votes.shape)}; its shape must be (..., M, L, 4) with L ≥ 1")
    if activations.shape != (*votes.shape[:-3], votes.shape[-2]):
        raise ValueError(
            f"activations has shape {tuple(activations.shape)}; "
            f"for these votes it must be {(*votes.shape[:-3], votes.shape[-2])}"
        )
    check_weights("activations", activations)
    if is_checking():  # a masked vote need not be a quaternion
        identity = identity_like(votes)
        votes = torch.where(activations[..., None, :, None] == 0, identity, votes)
    check_quaternion("votes", votes)


@dataclass(frozen=True)
class RoutingConfig(NetworkConfig):
    """Settings of routing, see `route`."""

    iterations: int = 3
    weighting: Weighting = "sigmoid"
    exponent: float = 1.0
    gradients: Gradients = "last"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_most(self, iterations=100)
        check_routing(self.iterations, self.weighting, self.exponent, self.gradients)

    def routing(self) -> dict[str, Any]:
        """These settings by name."""
        return {name: getattr(self, name) for name in RoutingConfig.__annotations__}

    def trace_round(self, positions: Tensor, votes: Tensor, trust: Tensor) -> VotingRound:
        """Route votes (L, 4), WXYZ, with weights (L,), of voters at positions (L, 3), and record each iteration."""
        steps = [
            route(votes[None], trust, done, self.weighting, exponent=self.exponent)
            for done in range(self.iterations + 1)
        ]
        weights = torch.stack([step.weights[0] for step in steps])
        shares = weights / weights.sum(-1, keepdim=True).clamp_min(1e-12)
        return VotingRound(positions, votes, torch.stack([step.poses[0] for step in steps]), shares)
