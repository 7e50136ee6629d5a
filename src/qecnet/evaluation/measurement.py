"""What every measurement needs: the model, the shapes, the protocol, and where predictions are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qecnet.datasets import Dataset
from qecnet.evaluation.corruption import Corruption
from qecnet.evaluation.predict import Predictions, predict
from qecnet.evaluation.protocols import TestView, ViewSampler
from qecnet.evaluation.results import MeasuredModel, ProtocolName
from qecnet.models import Model
from qecnet.nn import count_parameters


class CountedViews(NamedTuple):
    """The classes of views, the number of each view's shape in its split, and the number of its points."""

    classes: tuple[str, ...]
    shape: NDArray[np.int64]
    points: NDArray[np.int64]


@dataclass(frozen=True)
class Measurement:
    """The arguments of every `measure_*` function.

    Attributes:
        model: the trained model.
        dataset: where the test shapes come from.
        folder: where predictions are stored, so that an interrupted measurement resumes.
        protocol: how views are made, "strict" or "paper".
        shapes: numbers of the test shapes to measure; all of them by default.
        seed: of resampling and rotations.
        workers: processes; one per core by default.
        progress: whether to show progress bars.
    """

    model: Model
    dataset: Dataset
    folder: Path
    protocol: ProtocolName = "strict"
    shapes: Sequence[int] | None = None
    seed: int = 0
    workers: int | None = None
    progress: bool = True

    def predict(
        self,
        name: str,
        views: Sequence[TestView],
        *,
        protocol: ProtocolName | None = None,
        corruption: Corruption | None = None,
        train_shapes: Sequence[int] | None = None,
    ) -> Predictions:
        """Predict views of the test shapes, or of chosen training shapes.

        Args:
            name: the stem of the file that stores the predictions.
            views: which views of each shape.
            protocol: in place of the measurement's own.
            corruption: what is done to each view.
            train_shapes: numbers of training shapes to use in place of the test shapes.

        Returns:
            The predictions, a row for each view.
        """
        protocol, keep = protocol or self.protocol, self.model.setting("keep")
        sampler = ViewSampler(protocol, self.model.config, keep, self.seed, corruption)
        split, shapes = ("test", self.shapes) if train_shapes is None else ("train", train_shapes)
        into = self.folder / f"{name}.npz"
        return predict(self.model, self.dataset, split, sampler, views, into, shapes, self.workers, self.progress)

    def predict_test_views(self, rotations: int) -> Predictions:
        """Predict one upright and several rotated views of each test shape, each resampled on its own.

        Args:
            rotations: number of rotated views.

        Returns:
            The predictions, a row for each view.
        """
        views = [TestView(n, n) for n in range(rotations + 1)]
        return self.predict(f"classification-{self.protocol}", views)

    def describe(self, found: Predictions | CountedViews, protocol: ProtocolName | None = None) -> dict[str, Any]:
        """Collect the fields that every `ModelResult` has.

        Args:
            found: what was predicted.
            protocol: in place of the measurement's own.

        Returns:
            The fields by name.
        """
        return {
            "protocol": protocol or self.protocol,
            "dataset": self.dataset.name,
            "split": "test",
            "classes": found.classes,
            "missing": tuple(sorted({*self.model.classes, *self.dataset.classes} - set(found.classes))),
            "shapes": len(np.unique(found.shape)),
            "points": int(np.median(found.points)),
            "model": MeasuredModel(count_parameters(self.model.network), self.model.has_poses),
            "seed": self.seed,
        }
