"""A model's answer together with what its network read and returned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from qecnet.geometry import OrientedPoints, PointCloud
from qecnet.models import Alignment, Answer, Model
from qecnet.nn import Prediction


@dataclass(frozen=True, eq=False)
class Observation:
    """What a model says of a cloud, and why.

    Attributes:
        points: what the network was given, a batch of this cloud alone, and prediction: what it gave.
        alignment: to another cloud, if that was asked for.
    """

    answer: Answer
    points: OrientedPoints
    prediction: Prediction
    alignment: Alignment | None = None

    def restore(self, positions: Tensor) -> Tensor:
        """Positions that the network was given, in the cloud's own coordinates."""
        return self.points.select(0).restore(positions)


class Observer:
    """Watches a model; one question at a time."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._seen: tuple[OrientedPoints, Prediction] | None = None
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
        (points, prediction), self._seen = self._seen, None
        return Observation(answer, points, prediction, alignment)

    def _keep(self, _: nn.Module, given: tuple[Any, ...], prediction: Prediction) -> None:
        """Of what the network sees, the first cloud: where there are two, that is the source."""
        self._seen = given[0].select(slice(0, 1)), prediction.select(slice(0, 1))
