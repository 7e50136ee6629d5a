"""The last layer of the transform kernel, votes and routing (Algorithm 1) in one operator: routing.cpp."""

from typing import Any, NamedTuple, get_args

import torch
from torch import Tensor, nn

from ...algebra import Weighting
from ...compiled import call
from .._slices import scratch

LANES = 8
"""How many capsules are worked on at once, as in algebra.h."""


class _Setting(NamedTuple):
    iterations: int
    weighting: Weighting
    exponent: float

    def numbers(self) -> tuple[int, int, float, int]:
        """Get the numbers that the C++ operator takes for these settings, the last of them the number of threads."""
        return self.iterations, get_args(Weighting).index(self.weighting), float(self.exponent), torch.get_num_threads()


def route_fused(
    hidden: Tensor,
    last: nn.Linear,
    poses: Tensor,
    activations: Tensor,
    iterations: int,
    weighting: Weighting,
    exponent: float,
) -> tuple[Tensor, Tensor]:
    """The last layer of the transform kernel, votes and routing.

    Args:
        hidden: (..., K, H), what `last` reads at each point.
        last: from H to 4·Nc·M, ordered as (M, 4, Nc).
        poses: (..., K, Nc, 4), WXYZ, unit.
        activations: (..., K, Nc); an input of activation 0 is skipped, and gets no gradient.
        iterations, weighting, exponent: as in `route`.

    Returns:
        Poses (..., M, 4) and agreements (..., M), as `route` finds them.
    """
    *batch, points, channels = activations.shape
    capsules = last.out_features // (4 * channels)
    width = -last.in_features % 8  # of padding: products with other widths take several times as long
    weight = _grouped(last.weight.view(capsules, 4, channels, -1), width)
    found, agreement = _Route.apply(  # type: ignore[no-untyped-call]
        nn.functional.pad(hidden, (0, width)).view(-1, weight.shape[-1]),
        weight.view(-1, weight.shape[-1]),
        _grouped(last.bias.view(capsules, 4, channels, 1)).view(-1),
        poses.reshape(-1, points, channels, 4),
        activations.reshape(-1, points, channels),
        _Setting(iterations, weighting, exponent),
    )
    count = (activations > 0).sum((-2, -1)).clamp_min(1)[..., None]
    return (
        found.permute(0, 1, 3, 2).reshape(*batch, -1, 4)[..., :capsules, :],
        agreement.reshape(*batch, -1)[..., :capsules] / count,
    )


def _grouped(weight: Tensor, width: int = 0) -> Tensor:
    """(M, 4, Nc, H) → (groups, Nc, 4, lanes, H + width), with zeros for what is not there."""
    missing = -len(weight) % LANES
    if missing or width:
        weight = nn.functional.pad(weight, (0, width, 0, 0, 0, 0, 0, missing))
    return weight.view(-1, LANES, *weight.shape[1:]).permute(0, 3, 2, 1, 4).contiguous()


class _Route(torch.autograd.Function):
    """hidden (N·K, H), weight (G·Nc·4·8, H) and its bias, poses (N, K, Nc, 4), activations (N, K, Nc) →
    poses (N, G, 4, 8) and sums of agreement (N, G, 8), for groups G of eight output capsules."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, poses: Tensor, activations: Tensor, setting: _Setting
    ) -> tuple[Tensor, Tensor]:
        poses, activations = poses.contiguous(), activations.contiguous()
        clouds, points, channels = activations.shape
        groups = len(weight) // (4 * LANES * channels)
        trained = any(ctx.needs_input_grad)
        shape = (clouds * points, groups * channels * 4 * LANES)
        votes = torch.empty(shape) if trained else scratch(shape, hidden)
        torch.addmm(bias, hidden, weight.T, out=votes)
        inverses = torch.empty(clouds, points, groups, channels, LANES) if trained else None
        means = torch.empty(clouds, groups, setting.iterations + 1, 4, LANES)
        moments = torch.empty(clouds, groups, 10, LANES)
        agreements = torch.empty(clouds, groups, LANES)
        outputs = (votes, inverses, means, moments, agreements)
        sizes = (clouds, points, groups, channels)
        call("route_forward", *sizes, *setting.numbers(), poses, activations, *outputs)
        if trained:
            ctx.setting = setting
            ctx.save_for_backward(hidden, weight, poses, activations, votes, inverses, means, moments)
        return means[:, :, -1].clone(), agreements

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, for_means: Tensor, for_agreements: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, poses, activations, votes, inverses, means, moments = ctx.saved_tensors
        clouds, points, channels = activations.shape
        for_votes = scratch(votes.shape, votes)
        for_poses = torch.zeros_like(poses) if ctx.needs_input_grad[3] else None
        for_activations = torch.zeros_like(activations) if ctx.needs_input_grad[4] else None
        call(
            "route_backward",
            *(clouds, points, means.shape[1], channels, *ctx.setting.numbers()),
            *(poses, activations, votes, inverses, means, moments),
            *(for_means.contiguous(), for_agreements.contiguous()),
            *(for_votes, for_poses, for_activations),
        )
        return (
            for_votes @ weight if ctx.needs_input_grad[0] else None,
            for_votes.T @ hidden if ctx.needs_input_grad[1] else None,
            (for_votes.new_ones(1, len(for_votes)) @ for_votes)[0] if ctx.needs_input_grad[2] else None,
            for_poses,
            for_activations,
            None,
        )
