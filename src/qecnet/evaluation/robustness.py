"""Table 3 and further: what is left of names and poses when the input is spoiled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qecnet.datasets import Dataset
from qecnet.evaluation.metrics import classification
from qecnet.evaluation.predict import Model, Predictions, predict
from qecnet.evaluation.protocol import Protocol, Task, View
from qecnet.evaluation.result import described
from qecnet.evaluation.rotation import siamese_errors
from qecnet.evaluation.spoiling import LEVELS, Spoiling
from qecnet.models.inputs import prepare_config

_ERRORS = ("rae", "rae_all", "rae_symmetric")
"""Of siamese pairs: no-sym named right, no-sym every pair, and every pair of all classes up to symmetry."""


def measure_robustness(
    model: Model,
    dataset: Dataset,
    folder: Path,
    protocol: Protocol,
    *,
    levels: tuple[Spoiling, ...] = LEVELS,
    shapes: Sequence[int] | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Two views of each test shape at each level, resampled and turned on their own: named, and aligned as a pair.

    Args:
        shapes: numbers of the test shapes that are measured; all of them by default.
    """
    config, keep = prepare_config(model.settings), model.settings["keep"]
    rows: list[dict[str, Any]] = []
    head: dict[str, Any] = {}
    for spoiling in levels:
        task = Task(protocol, config, keep, seed, spoiling)
        into = folder / f"robustness-{protocol}-{spoiling.kind}-{spoiling.level:g}.npz"
        views = [View(1, 1), View(2, 2)]
        found = predict(model, dataset, "test", task, views, into, shapes=shapes, workers=workers, progress=progress)
        head = described("robustness", protocol, model, dataset, found, seed)
        named = classification(found.label, found.predicted, found.shape, found.classes, seed)
        rows.append(
            {
                "kind": spoiling.kind,
                "level": spoiling.level,
                "accuracy": named["accuracy"],
                "interval": named["interval"],
                **(_pose_errors(found) if model.has_poses else dict.fromkeys(_ERRORS)),
            }
        )
    return head | {"levels": rows}


def _pose_errors(found: Predictions) -> dict[str, float | None]:
    turned = siamese_errors(found)
    rows = turned["correct"]["no_sym"], turned["all"]["no_sym"], (turned["all"]["all_classes"] or {}).get("symmetric")
    return {name: None if row is None else row["mean"] for name, row in zip(_ERRORS, rows, strict=True)}
