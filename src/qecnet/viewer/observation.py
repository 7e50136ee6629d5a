"""A model's answer together with what its network read and returned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from qecnet.geometry import PointCloud
from qecnet.models import Alignment, Answer, Model
from qecnet.nn import Capsules, Pooling, Prediction


@dataclass(frozen=True, eq=False)
class Observation:
    """What a model says of a cloud, and why.

    Attributes:
        capsules, poolings: what the network was given, of this cloud alone, and prediction: what it gave.
        scale: one unit of the capsules' positions in the cloud's own units; their origin is at `answer.centre`.
        alignment: to another cloud, if that was asked for.
    """

    answer: Answer
    capsules: Capsules
    poolings: list[Pooling]
    prediction: Prediction
    scale: float
    alignment: Alignment | None = None

    def restore(self, positions: Tensor) -> Tensor:
        """Positions of capsules in the cloud's own coordinates."""
        return positions.double() * self.scale + self.answer.centre


class Observer:
    """Watches a model; one question at a time."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._seen: tuple[Capsules, list[Pooling], Prediction] | None = None
        model.network.register_forward_hook(self._keep)

    def observe(self, cloud: PointCloud, target: PointCloud | None = None) -> Observation:
        """What the cloud is; and, with a target, what brings it there."""
        alignment = None
        if target is None:
            answer = self.model.predict(cloud)
        else:
            alignment = self.model.align(cloud, target)
            answer = alignment.source
        assert self._seen is not None
        capsules, poolings, prediction = self._seen
        self._seen = None
        scale = float((cloud.points.double() - answer.centre).norm(dim=-1).amax())
        return Observation(answer, capsules, poolings, prediction, scale, alignment)

    def _keep(self, _: nn.Module, given: tuple[Any, ...], prediction: Prediction) -> None:
        """Of what the network sees, the first cloud: where there are two, that is the source."""
        capsules, poolings = given
        self._seen = (
            Capsules(capsules.positions[:1], capsules.poses[:1], capsules.activations[:1]),
            [Pooling(p.centres[:1], p.neighbours[:1], p.present[:1]) for p in poolings],
            _first(prediction),
        )


def _first(prediction: Prediction) -> Prediction:
    ballots = tuple(
        type(ballot)(*(getattr(ballot, name)[:1] for name in ("summary", "scores", "votes", "trust", "poses")))
        for ballot in prediction.ballots
    )
    return Prediction(prediction.activations[:1], prediction.poses[:1], ballots)


def compare(network: nn.Module, observation: Observation) -> Prediction:
    """What another network says of the very same points."""
    with torch.inference_mode():
        prediction: Prediction = network(observation.capsules, observation.poolings)
    return prediction
