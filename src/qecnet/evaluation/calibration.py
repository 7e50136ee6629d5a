"""Confidence against accuracy, and the temperature that brings the two together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from qecnet.datasets import stratified_split
from qecnet.evaluation.measurement import Measurement
from qecnet.evaluation.metrics import CALIBRATION_BINS, score_calibration
from qecnet.evaluation.predict import Predictions
from qecnet.evaluation.results import CalibrationResult, CalibrationSplit
from qecnet.evaluation.views import TestView
from qecnet.files import read_tensors, write_tensors
from qecnet.nn import calibrated, fit_temperature


def measure_calibration(measurement: Measurement, rotations: int = 5) -> CalibrationResult:
    """Fit the temperature on held-out training shapes, and measure the calibration error there and on the test split.

    Held-out shapes are seen as test shapes are: upright and rotated, each view resampled on its own.

    Args:
        measurement: what is measured, and how.
        rotations: number of rotated views of each shape.

    Returns:
        The result, for `write_result`.

    Raises:
        ValueError: if the model was trained without holding shapes out.
    """
    views = [TestView(n, n) for n in range(rotations + 1)]
    held = measurement.predict(f"calibration-{measurement.protocol}", views, train_shapes=_held_out(measurement))
    test = measurement.predict_test_views(rotations)
    temperature = fit_temperature(torch.from_numpy(held.activations), torch.from_numpy(held.label))
    return CalibrationResult(
        **measurement.describe(test),
        rotations=rotations,
        temperature=temperature,
        bins=CALIBRATION_BINS,
        held_out=_score(held, temperature),
        test=_score(test, temperature),
    )


def write_temperature(path: Path, temperature: float) -> None:
    """Write a temperature into a weights file, whose tensors stay as they are.

    Args:
        path: the weights file.
        temperature: what `measure_calibration` fitted.
    """
    tensors, about = read_tensors(path)
    write_tensors(path, tensors, about | {"temperature": temperature})


def _score(found: Predictions, temperature: float) -> CalibrationSplit:
    """Score before and after; before, the activations are only made to add up to 1."""
    activations = torch.from_numpy(found.activations).double()
    before, after = (score_calibration(calibrated(activations, t).numpy(), found.label) for t in (1.0, temperature))
    return CalibrationSplit(len(np.unique(found.shape)), len(found.label), before, after)


def _held_out(measurement: Measurement) -> list[int]:
    """Find the numbers of the training shapes that the model's training held out."""
    share = measurement.model.settings.get("validation", 0)
    if not share:
        raise ValueError(
            f"{measurement.model.name}: was trained without a held-out part (validation is 0), so no temperature can "
            "be fitted; train it with --set validation=0.1"
        )
    return stratified_split([item.label for item in measurement.dataset.items("train")], share, seed=0)[1]
