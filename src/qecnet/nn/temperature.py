"""Fits the temperatures of a `Calibration` on held-out shapes, so that confidence matches accuracy."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..algebra import conjugate, multiply
from .prediction import SAME_DIRECTION, Calibration, Prediction, log_positive

_COLDEST, _HOTTEST = 0.01, 100.0
_HEADING = math.cos(math.radians(15))


def fit_calibration(predictions: Sequence[Prediction], labels: Tensor, rotations: Tensor) -> Calibration:
    """Fit temperatures on N shapes that were not trained on.

    Args:
        predictions: of these shapes, in any number of batches.
        labels: (N,), of their classes; -1 for a shape without one, which counts for orientations only.
        rotations: (N, 4) WXYZ, from the dataset's pose of each shape to its own.

    Returns:
        The temperatures, see `fit_temperature` and `fit_orientation_temperature`; 1 where there is nothing to fit one
        on.
    """
    found = {}
    if len(named := (labels >= 0).nonzero()[:, 0]):
        activations = torch.cat([one.activations.cpu() for one in predictions])
        found["temperature"] = fit_temperature(activations[named], labels[named])
    if compared := [one.orientations for one in predictions if one.orientations is not None]:
        poses, shares, is_open = (
            torch.cat([getattr(one, name).cpu() for one in compared])
            for name in ("poses", "probabilities", "any_azimuth")
        )
        right = right_poses(poses.double(), rotations.double(), is_open)
        found["orientation_temperature"] = fit_orientation_temperature(shares, right)
    return Calibration(**found)


def right_poses(poses: Tensor, rotations: Tensor, any_azimuth: Tensor) -> Tensor:
    """Find correct candidates: up within 10°, and within 15° about it, unless all rotations about it are candidates.

    Only the pose in the dataset counts as correct. Symmetries are not taken into account, because the candidates of
    equally correct orientations should share the probability.

    Args:
        poses: (..., K, 4) WXYZ.
        rotations: (..., 4) WXYZ, from the dataset's pose of each shape to its own.
        any_azimuth: (..., K), whether a candidate stands for all rotations about its up direction.

    Returns:
        (..., K) bool.
    """
    w, _, _, z = multiply(conjugate(rotations)[..., None, :], poses).square().unbind(-1)
    up = w + z  # (1 + cos) / 2 of the angle between the up directions
    heading = (w - z) / up.clamp_min(torch.finfo(up.dtype).tiny)
    return (2 * up - 1 > SAME_DIRECTION) & (any_azimuth | (heading > _HEADING))


def fit_temperature(activations: Tensor, labels: Tensor) -> float:
    """Find the temperature under which the labels are most likely.

    The negative log likelihood is convex in the inverse temperature, so its slope is bisected. Four digits are kept: a
    few hundred shapes do not determine more.

    Args:
        activations: (N, C), of shapes that were held out.
        labels: (N,), their classes.

    Returns:
        The temperature; 1 if all labels are predicted correctly, as the likelihood then has no maximum.
    """
    if not len(labels):
        raise ValueError("there are no labels; a temperature is fitted on shapes that were held out")
    if bool((activations.argmax(-1) == labels).all()):
        return 1.0
    scores = log_positive(activations.double())
    right = scores.gather(-1, labels[:, None]).mean()
    low, high = 1 / _HOTTEST, 1 / _COLDEST
    for _ in range(60):
        inverse = (low * high) ** 0.5
        expected = ((scores * inverse).softmax(-1) * scores).sum(-1).mean()
        low, high = (inverse, high) if expected < right else (low, inverse)
    return float(f"{1 / low:.4g}")


def fit_orientation_temperature(probabilities: Tensor, right: Tensor) -> float:
    """Find the temperature under which the correct candidates (`right_poses`) of N shapes are most likely together.

    Shapes without a correct candidate, and those with correct ones only, do not matter.

    Args:
        probabilities: (N, K), as in `Orientations`; 0 for padding.
        right: (N, K) bool, which candidates are correct.

    Returns:
        The temperature.
    """
    there = probabilities > 0
    tells = (right & there).any(-1) & (~right & there).any(-1)
    if not bool(tells.any()):
        return 1.0
    right, scores = right[tells] & there[tells], log_positive(probabilities[tells].double())
    scores = torch.where(there[tells], scores, -math.inf)
    tried = torch.logspace(-1, 1, 201, dtype=torch.float64)
    losses = [-log_positive(((scores / t).softmax(-1) * right).sum(-1)).mean() for t in tried]
    return float(f"{tried[int(torch.stack(losses).argmin())]:.4g}")
