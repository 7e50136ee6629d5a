"""How sure a model is, beside how often it is right; and the temperature that brings the two together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from qecnet.datasets import Dataset, stratified_split
from qecnet.evaluation.classification import predict_test_views
from qecnet.evaluation.metrics import Array
from qecnet.evaluation.predict import Model, Predictions, predict
from qecnet.evaluation.protocol import Protocol, Task, View
from qecnet.evaluation.result import described
from qecnet.files import read_tensors, write_tensors
from qecnet.models.inputs import prepare_config
from qecnet.nn import calibrated, fit_temperature

BINS = 15


def measure_calibration(
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
    """Fits the temperature on the held-out shapes; the errors of calibration there and on `predict_test_views`.

    Held-out shapes are seen as test shapes are: upright and turned, each view of a resampling of its own.

    Args:
        shapes: numbers of the test shapes that are measured; all of them by default.
    """
    sizes: dict[str, Any] = {"workers": workers, "progress": progress}
    task = Task(protocol, prepare_config(model.settings), model.settings["keep"], seed)
    views, into = [View(n, n) for n in range(rotations + 1)], folder / f"calibration-{protocol}.npz"
    held = predict(model, dataset, "train", task, views, into, shapes=_held_out(model, dataset), **sizes)
    test = predict_test_views(model, dataset, folder, protocol, rotations=rotations, shapes=shapes, seed=seed, **sizes)
    temperature = fit_temperature(torch.from_numpy(held.activations), torch.from_numpy(held.label))
    return described("calibration", protocol, model, dataset, test, seed) | {
        "rotations": rotations,
        "temperature": temperature,
        "bins": BINS,
        "held_out": _figures(held, temperature),
        "test": _figures(test, temperature),
    }


def write_temperature(path: Path, temperature: float) -> None:
    """Into a file of weights, whose tensors stay as they are."""
    tensors, about = read_tensors(path)
    write_tensors(path, tensors, about | {"temperature": temperature})


def calibration_row(probabilities: Array, labels: Array) -> dict[str, Any]:
    """What is said of V views' probabilities (V, C) and labels (V,).

    - `ece`, the expected calibration error: the mean distance between confidence and accuracy in 15 bins of equal
      width, each counting as much as it has views.
    - `nll`: the mean negative log likelihood of the labels.
    - `reliability`: mean confidence, accuracy and views of each bin that has any.
    """
    confidence, right = probabilities.max(-1), probabilities.argmax(-1) == labels
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    bins = [(confidence[place == b].mean(), right[place == b].mean(), (place == b).sum()) for b in np.unique(place)]
    of_label = probabilities[np.arange(len(labels)), labels]
    return {
        "accuracy": float(right.mean()),
        "confidence": float(confidence.mean()),
        "ece": float(sum(abs(sure - share) * count for sure, share, count in bins) / len(labels)),
        "nll": float(-np.log(np.maximum(of_label, np.finfo(np.float64).tiny)).mean()),
        "reliability": [[float(sure), float(share), int(count)] for sure, share, count in bins],
    }


def _figures(found: Predictions, temperature: float) -> dict[str, Any]:
    """Before and after; before, the activations are but made to add up to 1."""
    activations = torch.from_numpy(found.activations).double()
    rows = {
        name: calibration_row(calibrated(activations, degree).numpy(), found.label)
        for name, degree in (("before", 1.0), ("after", temperature))
    }
    return {"shapes": len(np.unique(found.shape)), "views": len(found.label), **rows}


def _held_out(model: Model, dataset: Dataset) -> list[int]:
    """The numbers of the train split's shapes that the model's training held out."""
    share = model.settings.get("validation", 0)
    if not share:
        raise ValueError(f"{model.path}: was trained with no part held out (validation is 0); nothing can be fitted")
    return stratified_split([item.label for item in dataset.items("train")], share, seed=0)[1]
