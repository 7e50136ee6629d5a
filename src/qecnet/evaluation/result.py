"""What stands at the head of every result: which model, which shapes, which protocol."""

from __future__ import annotations

from typing import Any

import numpy as np

from qecnet.datasets import Dataset
from qecnet.evaluation.predict import Model, Predictions
from qecnet.nn import count_parameters

_OF_MODEL = ("dataset", "config", "method", "seed", "epochs", "siamese")


def described(
    what: str, protocol: str, model: Model, dataset: Dataset, found: Predictions, seed: int
) -> dict[str, Any]:
    """`missing` are classes that only the model or only the dataset knows: neither takes part."""
    missing = sorted({*model.classes, *dataset.classes} - set(found.classes))
    about = {name: model.settings[name] for name in _OF_MODEL if name in model.settings}
    return {
        "what": what,
        "protocol": protocol,
        "dataset": dataset.name,
        "split": "test",
        "classes": list(found.classes),
        "missing": missing,
        "shapes": len(np.unique(found.shape)),
        "model": about | {"parameters": count_parameters(model.network)},
        "seed": seed,
    }
