"""Table 1: how often a shape is named right, upright (NR/NR) and turned at random (NR/AR)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qecnet.datasets import Dataset
from qecnet.evaluation.metrics import classification
from qecnet.evaluation.predict import Model, Predictions, predict
from qecnet.evaluation.protocol import Protocol, Task, View
from qecnet.evaluation.result import described
from qecnet.models.inputs import prepare_config


def measure_classification(
    model: Model,
    dataset: Dataset,
    folder: Path,
    protocol: Protocol,
    *,
    rotations: int = 5,
    shapes: Sequence[int] | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """The accuracy of `predict_test_views`."""
    sizes: dict[str, Any] = {"rotations": rotations, "shapes": shapes, "seed": seed}
    found = predict_test_views(model, dataset, folder, protocol, workers=workers, progress=progress, **sizes)
    upright = found.turn == 0
    return described("classification", protocol, model, dataset, found, seed) | {
        "rotations": rotations,
        "nr": _figures(found.where(upright), seed),
        "ar": _figures(found.where(~upright), seed) if rotations else None,
    }


def predict_test_views(
    model: Model,
    dataset: Dataset,
    folder: Path,
    protocol: Protocol,
    *,
    rotations: int = 5,
    shapes: Sequence[int] | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: bool = True,
) -> Predictions:
    """One upright view of each test shape, and `rotations` turned ones, each of a resampling of its own.

    Args:
        shapes: numbers of the test shapes that are measured; all of them by default.
    """
    task = Task(protocol, prepare_config(model.settings), model.settings["keep"], seed)
    views = [View(n, n) for n in range(rotations + 1)]
    into = folder / f"classification-{protocol}.npz"
    return predict(model, dataset, "test", task, views, into, shapes=shapes, workers=workers, progress=progress)


def _figures(found: Predictions, seed: int) -> dict[str, Any]:
    return classification(found.label, found.predicted, found.shape, found.classes, seed)
