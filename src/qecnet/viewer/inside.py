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
from qecnet.viewer.observed import Observed
from qecnet.viewer.wish import Layer


@dataclass(frozen=True, eq=False)
class Hearing:
    """Votes for one class's pose, heard once: L voters at `places` (L, 3), votes (L, 4) WXYZ; and after each of S
    steps of routing, the first before any, the pose (S, 4) and the weights (S, L), which add up to 1."""

    places: Tensor
    votes: Tensor
    poses: Tensor
    weights: Tensor


@torch.inference_mode()
def layers_of(network: QECNet, observed: Observed, wanted: frozenset[Layer]) -> dict[str, Tensor]:
    """The arrays of each wanted layer, by the names that the page knows."""
    arrays: dict[str, Tensor] = {}
    if "frames" in wanted:
        arrays |= _frames(observed)
    if "patches" in wanted:
        arrays |= _patches(network, observed)
    if "capsules" in wanted:
        arrays |= _capsules(network, observed)
    if "votes" in wanted:
        for number, hearing in enumerate(hearings(network, observed)):
            for name in ("places", "votes", "poses", "weights"):
                arrays[f"hearing{number}.{name}"] = getattr(hearing, name)
    return arrays


def hearings(network: QECNet, observed: Observed) -> list[Hearing]:
    """The votes for the winning class: of each look, or of the one time that the paper's network votes for classes."""
    label = int(observed.prediction.label[0])
    if isinstance(network.head, FeatureCapsules):
        patches = observed.restore(network.head.poolings(observed.capsules)[-1].centres[0])
        cast = [(ballot.votes[0, label], ballot.trust[0, label]) for ballot in observed.prediction.ballots]
        middle = observed.answer.centre.expand(len(cast[0][0]) - len(patches), 3)
        places = torch.cat((patches, middle))
    else:
        below = network.capsules(observed.capsules, observed.poolings)[-2]
        votes, activations = network.head.votes(below, Pooling.whole(below))
        cast = [(votes[0, 0, label], activations[0, 0])]
        places = observed.restore(below.positions[0]).repeat(below.poses.shape[-2], 1)
    config = network.config
    found = []
    for votes, trust in cast:
        steps = trace(votes[None], trust, config.iterations, config.weighting, exponent=config.exponent)
        weights = torch.stack([step.weights[0] for step in steps])
        shares = weights / weights.sum(-1, keepdim=True).clamp_min(1e-12)
        found.append(Hearing(places, votes, torch.stack([step.poses[0] for step in steps]), shares))
    return found


def _frames(observed: Observed) -> dict[str, Tensor]:
    """Of points that a small cloud does not have, nothing."""
    capsules = observed.capsules
    valid = capsules.activations[0, :, 0] > 0
    there = valid | (capsules.positions[0] != 0).any(-1)
    return {
        "frames.places": observed.restore(capsules.positions[0][there]),
        "frames.poses": capsules.poses[0, there, 0],
        "frames.valid": valid[there],
    }


def _patches(network: QECNet, observed: Observed) -> dict[str, Tensor]:
    """The highest patches: their centres (P, 3), and the ends of lines from each to what it reads, (S, 2, 3)."""
    if isinstance(network.head, FeatureCapsules):
        *below, pooling = network.head.poolings(observed.capsules)
        points = below[-1].centres[0] if below else observed.capsules.positions[0]
    else:
        pooling, points = observed.poolings[-1], observed.capsules.positions[0]
    ends = points[pooling.neighbours[0]]
    starts = pooling.centres[0][:, None].expand_as(ends)
    present = pooling.present[0]
    which = torch.arange(len(present))[:, None].expand_as(present)
    return {
        "patches.centres": observed.restore(pooling.centres[0]),
        "patches.lines": observed.restore(torch.stack((starts, ends), -2)[present]),
        "patches.of": which[present],
    }


def _capsules(network: QECNet, observed: Observed) -> dict[str, Tensor]:
    """The first layer's capsules: at each patch the pose of the most active one, and how active all are on average.

    Capsules with features are all equally active; what tells them apart is how far the last look trusts them.
    """
    if isinstance(network.head, FeatureCapsules):
        places = network.head.poolings(observed.capsules)[-1].centres[0]
        trust = observed.prediction.ballots[-1].trust[0, int(observed.prediction.label[0])]
        return {
            "capsules.places": observed.restore(places),
            "capsules.poses": _poses_at(observed.capsules, places),
            "capsules.activations": trust[: len(places)],
        }
    level = network.capsules(observed.capsules, observed.poolings)[0]
    best = level.activations[0].argmax(-1)
    return {
        "capsules.places": observed.restore(level.positions[0]),
        "capsules.poses": level.poses[0, torch.arange(len(best)), best],
        "capsules.activations": level.activations[0].mean(-1),
    }


def _poses_at(capsules: Capsules, places: Tensor) -> Tensor:
    """The frames of the points that stand at these places."""
    return capsules.poses[0, torch.cdist(places.double(), capsules.positions[0].double()).argmin(-1), 0]
