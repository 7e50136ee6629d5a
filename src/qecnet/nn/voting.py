"""Shared by networks that route votes: the settings of routing, and a record of its iterations."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..algebra import Weighting
from .prediction import VotingRound
from .registry import NetworkConfig, check_at_most
from .routing import Gradients, check_routing, route


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
