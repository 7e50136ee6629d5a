"""Activations as probabilities: one number, the temperature, makes a network as sure as it is right.

Fitted on shapes that were not trained on, it changes neither which class is first nor the order of the others.
"""

import torch
from torch import Tensor

_COLDEST, _HOTTEST = 0.01, 100.0


def calibrated(activations: Tensor, temperature: float = 1.0) -> Tensor:
    """`softmax(log(activations) / temperature)`: adds up to 1 over the classes. (..., C) → (..., C)

    A network with features has a softmax's activations, and a temperature of 1 leaves them as they are. The paper's
    are sigmoids, each for itself; their logarithms are taken for scores all the same.
    """
    return (_logarithms(activations) / temperature).softmax(-1)


def fit_temperature(activations: Tensor, labels: Tensor) -> float:
    """The temperature under which labels (N,) are most likely for activations (N, C).

    The negative log likelihood is convex in the inverse temperature, so its slope is bisected. Four digits are kept:
    more would say more than a few hundred shapes know. Where every label is right, nothing says how sure one may be,
    and the temperature is 1.
    """
    if not len(labels):
        raise ValueError("there are no labels; a temperature is fitted on shapes that were held out")
    if bool((activations.argmax(-1) == labels).all()):
        return 1.0
    scores = _logarithms(activations.double())
    right = scores.gather(-1, labels[:, None]).mean()
    low, high = 1 / _HOTTEST, 1 / _COLDEST
    for _ in range(60):
        inverse = (low * high) ** 0.5
        expected = ((scores * inverse).softmax(-1) * scores).sum(-1).mean()
        low, high = (inverse, high) if expected < right else (low, inverse)
    return float(f"{1 / low:.4g}")


def fit_orientation_temperature(probabilities: Tensor, right: Tensor) -> float:
    """The temperature under which the right candidates of N shapes are most likely together.

    Shapes without a right candidate, and those with right ones only, say nothing about it.

    Args:
        probabilities: (N, K), as in `Orientations`; 0 for padding.
        right: (N, K) bool.
    """
    there = probabilities > 0
    tells = (right & there).any(-1) & (~right & there).any(-1)
    if not bool(tells.any()):
        return 1.0
    right, scores = right[tells], _logarithms(probabilities[tells].double())
    tried = torch.logspace(-1, 1, 201, dtype=torch.float64)
    losses = [-_logarithms(((scores / t).softmax(-1) * right).sum(-1)).mean() for t in tried]
    return float(f"{tried[int(torch.stack(losses).argmin())]:.4g}")


def _logarithms(activations: Tensor) -> Tensor:
    """Of activations that may be 0."""
    return activations.clamp_min(torch.finfo(torch.float32).tiny).log()
