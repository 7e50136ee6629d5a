"""The quaternion equivariant capsule (QEC) module: Algorithm 2 of the paper."""

import torch
from torch import Tensor, nn

from ..algebra import (
    Weighting,
    check_quaternion,
    conjugate,
    full_precision,
    identity_like,
    is_checking,
    rotate,
    weighted_mean,
)
from .capsules import Capsules, Pooling
from .fused import canonical_fused, is_fused, route_fused
from .kernel import Nonlinearity, TransformKernel
from .routing import Gradients, activation_of, check_routing, route
from .votes import cast_votes


class QECModule(nn.Module):
    """From the K points of a patch, each with Nc poses, to M poses at the patch's centre.

    Args:
        in_capsules: Nc, poses at each point.
        out_capsules: M, poses at each patch.
        nonlinearity: between the two layers of the transform kernel.
        iterations, weighting, exponent, gradients: of routing, see `route`.
        canonicalize: False reads positions as they are, not in the patch's own frame: the paper's "Var.", which is NOT
            equivariant.
    """

    def __init__(
        self,
        in_capsules: int,
        out_capsules: int,
        *,
        nonlinearity: Nonlinearity = "none",
        iterations: int = 3,
        weighting: Weighting = "sigmoid",
        exponent: float = 1.0,
        gradients: Gradients = "last",
        canonicalize: bool = True,
    ) -> None:
        super().__init__()
        check_routing(iterations, weighting, exponent, gradients)
        self.kernel = TransformKernel(in_capsules, out_capsules, nonlinearity)
        self.scale = nn.Parameter(torch.ones(()))
        self.shift = nn.Parameter(torch.zeros(()))
        self.iterations, self.weighting, self.exponent = iterations, weighting, exponent
        self.gradients, self.canonicalize = gradients, canonicalize

    def forward(self, capsules: Capsules, pooling: Pooling) -> Capsules:
        """Route the capsules of each patch to capsules at its centre.

        Args:
            capsules: at points, (clouds, points), with Nc channels.
            pooling: which points each patch reads.

        Returns:
            Capsules at the patch centres, (clouds, patches), with M channels.
        """
        channels, found = self.kernel.in_capsules, capsules.poses.shape[-2]
        if found != channels:
            raise ValueError(f"capsules have {found} poses per point; this module expects {channels}")
        inputs = (capsules.positions, capsules.poses, capsules.activations, pooling.centres)
        with full_precision(capsules.poses.device):
            if is_fused(*inputs, differentiated=self.gradients == "all"):
                return Capsules(pooling.centres, *self._route_fused(capsules, pooling))
            routed = route(
                *self.votes(capsules, pooling),
                self.iterations,
                self.weighting,
                exponent=self.exponent,
                scale=self.scale,
                shift=self.shift,
                gradients=self.gradients,
            )
        return Capsules(pooling.centres, routed.poses, routed.activations)

    def votes(self, capsules: Capsules, pooling: Pooling) -> tuple[Tensor, Tensor]:
        """Compute the votes that are routed.

        Args:
            capsules: at points, (clouds, points), with Nc channels.
            pooling: which points each patch reads.

        Returns:
            Votes (clouds, patches, M, Nc·K, 4), WXYZ, with the points innermost, and the activations
            (clouds, patches, Nc·K) of the capsules that cast them.
        """
        patch = capsules.group(pooling)
        transforms = self.kernel(self._canonical(patch, pooling))
        poses = patch.poses.transpose(-3, -2).flatten(-3, -2)
        return cast_votes(poses, transforms), patch.activations.mT.flatten(-2)

    def _route_fused(self, capsules: Capsules, pooling: Pooling) -> tuple[Tensor, Tensor]:
        """Poses and activations as `route` gives them."""
        patch = capsules.group(pooling)
        if is_checking():  # the operators do not check values, and a masked pose need not be a quaternion
            identity = identity_like(patch.poses)
            check_quaternion("poses", torch.where(patch.activations[..., None] == 0, identity, patch.poses))
        poses, agreement = route_fused(
            self.kernel.hidden(self._canonical(patch, pooling, fused=True)),
            self.kernel.second,
            patch.poses,
            patch.activations,
            self.iterations,
            self.weighting,
            self.exponent,
        )
        unmasked = (patch.activations > 0).flatten(-2).any(-1, keepdim=True)
        return poses, activation_of(agreement, unmasked, self.scale, self.shift)

    def _canonical(self, patch: Capsules, pooling: Pooling, fused: bool = False) -> Tensor:
        """Each point in the frame of each channel's mean pose, `μ(n)⁻¹ ∘ x`. → (..., K, Nc, 3)."""
        origins = pooling.centres if pooling.origins is None else pooling.origins
        positions = patch.positions - origins[..., None, :]
        if not self.canonicalize:
            return positions[..., None, :].expand(*patch.poses.shape[:-1], 3)
        if fused and not positions.requires_grad:
            return canonical_fused(positions, patch.poses, patch.activations)
        unmasked = (patch.activations > 0).to(patch.poses.dtype)
        mean = weighted_mean(patch.poses.transpose(-3, -2), unmasked.mT)
        return rotate(conjugate(mean)[..., None, :, :], positions[..., None, :])
