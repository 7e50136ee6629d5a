"""A model's answer together with the input and the output of its network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from qecnet.geometry import OrientedPoints, PointCloud
from qecnet.models import Alignment, Answer, Model
from qecnet.nn import Prediction


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
