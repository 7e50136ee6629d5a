"""What the page shows of a network's inside: frames, patches, capsules, and votes through the iterations of routing.

Positions are in the coordinates of the cloud, in its pose.
"""

from __future__ import annotations

import torch
from torch import Tensor

from qecnet.nn import Network
from qecnet.viewer.observation import Observation
from qecnet.viewer.request import Layer


@torch.inference_mode()
def layer_arrays(network: Network, observation: Observation, wanted: tuple[Layer, ...]) -> dict[str, Tensor]:
    """The arrays of each wanted layer, by the names that the page knows."""
    arrays: dict[str, Tensor] = {}
    if "frames" in wanted:
        arrays |= _frames(observation)
    if "patches" in wanted or "capsules" in wanted:
        arrays |= _patches(network, observation, wanted)
    if "votes" in wanted:
        for number, voting in enumerate(network.trace_votes(observation.points, observation.prediction)):
            arrays[f"round{number}.positions"] = observation.restore(voting.positions)
            for name in ("votes", "poses", "weights"):
                arrays[f"round{number}.{name}"] = getattr(voting, name)
    return arrays


def _frames(observation: Observation) -> dict[str, Tensor]:
    """The frames, valid or not, without the padding of a small cloud."""
    points = observation.points.select(0)
    there = points.valid | (points.positions != 0).any(-1)
    return {
        "frames.positions": points.restore(points.positions[there]),
        "frames.poses": points.frames[there],
        "frames.valid": points.valid[there],
    }


def _patches(network: Network, observation: Observation, wanted: tuple[Layer, ...]) -> dict[str, Tensor]:
    """Patches: their centres (P, 3), and the ends of lines from each to what it reads, (S, 2, 3); capsules: the pose
    and the activation of each patch."""
    found = network.explain_patches(observation.points, observation.prediction)
    if found is None:
        return {}
    centres, arrays = observation.restore(found.centres), {}
    if "patches" in wanted:
        lines = torch.stack((found.centres[:, None].expand_as(found.reads), found.reads), -2)
        which = torch.arange(len(found.present))[:, None].expand_as(found.present)
        arrays["patches.centres"] = centres
        arrays["patches.lines"] = observation.restore(lines[found.present])
        arrays["patches.of"] = which[found.present]
    if "capsules" in wanted:
        arrays["capsules.positions"] = centres
        arrays["capsules.poses"], arrays["capsules.activations"] = found.poses, found.activations
    return arrays
