"""What the page shows of a network's inside: frames, patches, capsules, and votes through the iterations of routing.

Positions come in the coordinates of the cloud that was asked about, turned as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from qecnet.nn import QECNet
from qecnet.nn.capsules import Capsules, Pooling
from qecnet.nn.features import FeatureCapsules
from qecnet.nn.routing import trace
from qecnet.viewer.observation import Observation
from qecnet.viewer.request import Layer


@dataclass(frozen=True, eq=False)
class VotingRound:
    """Votes for one class's pose, heard once: L voters at `positions` (L, 3), votes (L, 4) WXYZ; and after each of S
    steps of routing, the first before any, the pose (S, 4) and the weights (S, L), which add up to 1."""

    positions: Tensor
    votes: Tensor
    poses: Tensor
    weights: Tensor


@torch.inference_mode()
def layer_arrays(network: QECNet, observation: Observation, wanted: frozenset[Layer]) -> dict[str, Tensor]:
    """The arrays of each wanted layer, by the names that the page knows."""
    arrays: dict[str, Tensor] = {}
    if "frames" in wanted:
        arrays |= _frames(observation)
    if "patches" in wanted:
        arrays |= _patches(network, observation)
    if "capsules" in wanted:
        arrays |= _capsules(network, observation)
    if "votes" in wanted:
        for number, voting in enumerate(voting_rounds(network, observation)):
            for name in ("positions", "votes", "poses", "weights"):
                arrays[f"round{number}.{name}"] = getattr(voting, name)
    return arrays


def voting_rounds(network: QECNet, observation: Observation) -> list[VotingRound]:
    """The votes for the winning class: of each look, or of the one time that the paper's network votes for classes."""
    label = int(observation.prediction.label[0])
    if isinstance(network.head, FeatureCapsules):
        patches = observation.restore(network.head.poolings(observation.capsules)[-1].centres[0])
        cast = [(ballot.votes[0, label], ballot.trust[0, label]) for ballot in observation.prediction.ballots]
        middle = observation.answer.centre.expand(len(cast[0][0]) - len(patches), 3)
        positions = torch.cat((patches, middle))
    else:
        below = network.capsules(observation.capsules, observation.poolings)[-2]
        votes, activations = network.head.votes(below, Pooling.whole(below))
        cast = [(votes[0, 0, label], activations[0, 0])]
        positions = observation.restore(below.positions[0]).repeat(below.poses.shape[-2], 1)
    config = network.config
    found = []
    for votes, trust in cast:
        steps = trace(votes[None], trust, config.iterations, config.weighting, exponent=config.exponent)
        weights = torch.stack([step.weights[0] for step in steps])
        shares = weights / weights.sum(-1, keepdim=True).clamp_min(1e-12)
        found.append(VotingRound(positions, votes, torch.stack([step.poses[0] for step in steps]), shares))
    return found


def _frames(observation: Observation) -> dict[str, Tensor]:
    """Of points that a small cloud does not have, nothing."""
    capsules = observation.capsules
    valid = capsules.activations[0, :, 0] > 0
    there = valid | (capsules.positions[0] != 0).any(-1)
    return {
        "frames.positions": observation.restore(capsules.positions[0][there]),
        "frames.poses": capsules.poses[0, there, 0],
        "frames.valid": valid[there],
    }


def _patches(network: QECNet, observation: Observation) -> dict[str, Tensor]:
    """The highest patches: their centres (P, 3), and the ends of lines from each to what it reads, (S, 2, 3)."""
    if isinstance(network.head, FeatureCapsules):
        *below, pooling = network.head.poolings(observation.capsules)
        points = below[-1].centres[0] if below else observation.capsules.positions[0]
    else:
        pooling, points = observation.poolings[-1], observation.capsules.positions[0]
    ends = points[pooling.neighbours[0]]
    starts = pooling.centres[0][:, None].expand_as(ends)
    present = pooling.present[0]
    which = torch.arange(len(present))[:, None].expand_as(present)
    return {
        "patches.centres": observation.restore(pooling.centres[0]),
        "patches.lines": observation.restore(torch.stack((starts, ends), -2)[present]),
        "patches.of": which[present],
    }


def _capsules(network: QECNet, observation: Observation) -> dict[str, Tensor]:
    """The first layer's capsules: at each patch the pose of the most active one, and how active all are on average.

    Capsules with features are all equally active; what tells them apart is how far the last look trusts them.
    """
    if isinstance(network.head, FeatureCapsules):
        positions = network.head.poolings(observation.capsules)[-1].centres[0]
        trust = observation.prediction.ballots[-1].trust[0, int(observation.prediction.label[0])]
        return {
            "capsules.positions": observation.restore(positions),
            "capsules.poses": _poses_at(observation.capsules, positions),
            "capsules.activations": trust[: len(positions)],
        }
    level = network.capsules(observation.capsules, observation.poolings)[0]
    best = level.activations[0].argmax(-1)
    return {
        "capsules.positions": observation.restore(level.positions[0]),
        "capsules.poses": level.poses[0, torch.arange(len(best)), best],
        "capsules.activations": level.activations[0].mean(-1),
    }


def _poses_at(capsules: Capsules, positions: Tensor) -> Tensor:
    """The frames of the points that stand at these positions."""
    return capsules.poses[0, torch.cdist(positions.double(), capsules.positions[0].double()).argmin(-1), 0]
