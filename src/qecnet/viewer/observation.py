"""A model's answer with the input and the output of its network, and what the page shows of the network's inside.

That is frames, patches, capsules, and votes through the iterations of routing. Positions are in the coordinates of the
cloud, in its pose.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from qecnet.geometry import OrientedPoints, PointCloud
from qecnet.models import Alignment, Answer, Model
from qecnet.nn import Network, Prediction
from qecnet.viewer.request import Layer


@dataclass(frozen=True, eq=False)
class Observation:
    """A model's answer for a cloud, and what it is based on.

    Attributes:
        answer: the answer.
        points: the input of the network, a batch of this cloud alone.
        prediction: the output of the network.
        alignment: with another cloud, if there is one.
    """

    answer: Answer
    points: OrientedPoints
    prediction: Prediction
    alignment: Alignment | None = None

    def restore(self, positions: Tensor) -> Tensor:
        """Convert positions in the network's input to the cloud's own coordinates."""
        return self.points.select(0).restore(positions)


class Observer:
    """Records the input and the output of a model's network, for one prediction at a time."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._seen: tuple[OrientedPoints, Prediction] | None = None
        model.network.register_forward_hook(self._keep)

    def observe(self, cloud: PointCloud, target: PointCloud | None = None) -> Observation:
        """Predict a cloud; with a target, also align it with that."""
        alignment = None
        if target is None:
            answer = self.model.predict(cloud)
        else:
            alignment = self.model.align(cloud, target)
            answer = alignment.source
        assert self._seen is not None
        (points, prediction), self._seen = self._seen, None
        return Observation(answer, points, prediction, alignment)

    def _keep(self, _: nn.Module, given: tuple[Any, ...], prediction: Prediction) -> None:
        """Keep the first cloud of a batch: if there are two, that is the source."""
        self._seen = given[0].select(slice(0, 1)), prediction.select(slice(0, 1))


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
