"""Points in the frames of their patch's mean poses (Algorithm 2) in one operator: canonical.cpp."""

from typing import Any

import torch
from torch import Tensor

from ...compiled import call
from .routed import LANES


def canonical_fused(positions: Tensor, poses: Tensor, activations: Tensor) -> Tensor:
    """`μ(n)⁻¹ ∘ x` for the mean pose μ(n) of the unmasked poses of each channel n.

    Args:
        positions: (..., K, 3), relative to the patch's centre; they get no gradient.
        poses: (..., K, Nc, 4), WXYZ, unit.
        activations: (..., K, Nc), 0 where masked.

    Returns:
        (..., K, Nc, 3)
    """
    points, channels = activations.shape[-2:]
    found: Tensor = _Canonical.apply(  # type: ignore[no-untyped-call]
        positions.reshape(-1, points, 3).contiguous(),
        poses.reshape(-1, points, channels, 4).contiguous(),
        activations.detach().reshape(-1, points, channels).contiguous(),
    )
    return found.view(*activations.shape, 3)


class _Canonical(torch.autograd.Function):
    """positions (N, K, 3), poses (N, K, Nc, 4), activations (N, K, Nc) → (N, K, Nc, 3); means by eights."""

    @staticmethod
    def forward(ctx: Any, positions: Tensor, poses: Tensor, activations: Tensor) -> Tensor:
        groups = -(-activations.shape[0] * activations.shape[2] // LANES)
        means, moments = torch.empty(groups, 4, LANES), torch.empty(groups, 10, LANES)
        canonical = torch.empty(*activations.shape, 3)
        given = (poses, activations, positions)
        call("canonical_forward", *activations.shape, torch.get_num_threads(), *given, means, moments, canonical)
        ctx.save_for_backward(*given, means, moments)
        return canonical

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, for_canonical: Tensor) -> tuple[None, Tensor, None]:
        saved = ctx.saved_tensors
        for_poses = torch.empty_like(saved[0])
        sizes = saved[1].shape
        call("canonical_backward", *sizes, torch.get_num_threads(), *saved, for_canonical.contiguous(), for_poses)
        return None, for_poses, None
