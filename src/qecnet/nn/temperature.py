"""Temperatures that turn activations into probabilities, fitted so that confidence matches accuracy."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from .losses import log_positive
from .orientations import right_poses
from .prediction import Prediction

STEEPEST = 5.0
"""Largest slope of a temperature in partiality."""

_HOTTEST = math.log(100)
_LIMITS = torch.tensor([_HOTTEST, STEEPEST], dtype=torch.float64)
_USUAL_SLOPE = 2.0  # standard deviation of slopes before anything is known
_USUAL_CHANGE = 0.25  # standard deviation of a temperature's logarithm, around that of the greatest likelihood
_SHARE = 0.9  # of the probability that candidate sets have; they should hold a right pose as often


@dataclass(frozen=True)
class Calibration:
    """Temperatures that turn activations into probabilities; the defaults leave them as they are.

    The temperature of a cloud is `temperature · exp(slope · partiality)`, see `Prediction.partiality`: at the same
    activation, a network may be right less often about a view than about a whole shape. No temperature changes the
    order of a cloud's classes or candidates.

    Attributes:
        temperature: of the classes, for a whole shape.
        orientation_temperature: of the candidate orientations, for a network that compares any.
        temperature_slope: how fast the logarithm of the classes' temperature grows with partiality.
        orientation_temperature_slope: the same for the candidates.
    """

    temperature: float = 1.0
    orientation_temperature: float = 1.0
    temperature_slope: float = 0.0
    orientation_temperature_slope: float = 0.0

    def __post_init__(self) -> None:
        for names, low, high in (
            (("temperature", "orientation_temperature"), 1e-6, 1e6),
            (("temperature_slope", "orientation_temperature_slope"), -STEEPEST, STEEPEST),
        ):
            for name in names:
                if not low <= getattr(self, name) <= high:
                    raise ValueError(f"{name} is {getattr(self, name)}; it must be a number from {low:g} to {high:g}")

    def apply(self, prediction: Prediction) -> Prediction:
        """Replace the activations and the probabilities of candidates by calibrated ones.

        Args:
            prediction: as a network returns it.

        Returns:
            The same with calibrated probabilities, each of which add up to 1.
        """
        partiality, found = prediction.partiality, prediction.orientations
        if found is not None:
            slope = self.orientation_temperature_slope
            found = found.with_temperature(self.orientation_temperature * (slope * partiality).exp())
        activations = self.class_probabilities(prediction.activations, partiality)
        return replace(prediction, activations=activations, orientations=found)

    def class_probabilities(self, activations: Tensor, partiality: Tensor) -> Tensor:
        """Turn activations into probabilities: `softmax(log(activations) / temperature)`.

        For a network with features, whose activations are those of a softmax, a temperature of 1 changes nothing. The
        activations of the paper's network are independent sigmoids; their logarithms are used as scores nonetheless.

        Args:
            activations: (..., C).
            partiality: (...), of the clouds, see `Prediction.partiality`.

        Returns:
            (..., C), which add up to 1.
        """
        temperature = self.temperature * (self.temperature_slope * partiality).exp()
        return (log_positive(activations) / temperature[..., None]).softmax(-1)


def fit_calibration(
    predictions: Sequence[Prediction], labels: Tensor, rotations: Tensor, seen: bool = False
) -> Calibration:
    """Fit temperatures on N shapes that were not trained on.

    Args:
        predictions: of these shapes, in any number of batches.
        labels: (N,), of their classes; -1 for a shape without one, which counts for orientations only.
        rotations: (N, 4) WXYZ, from the dataset's pose of each shape to its own.
        seen: whether weights that training started from may have been trained on these shapes. The network is then
            right about them more often than about new ones, so the temperature of the classes is at least 1.

    Returns:
        The temperatures of classes (`fit_temperature`) and of candidates (`right_poses`, `fit_set_temperature`) and
        their slopes; the default where there is nothing to fit one on.
    """
    found = {}
    partiality = torch.cat([one.partiality.cpu() for one in predictions])
    if len(named := (labels >= 0).nonzero()[:, 0]):
        activations = torch.cat([one.activations.cpu() for one in predictions])[named]
        right = one_hot(labels[named], activations.shape[-1]).bool()
        fitted = fit_temperature(log_positive(activations.double()), right, partiality[named], 1.0 if seen else 0.0)
        found["temperature"], found["temperature_slope"] = fitted
    if compared := [one.orientations for one in predictions if one.orientations is not None]:
        poses, shares, is_open = (
            torch.cat([getattr(one, name).cpu() for one in compared])
            for name in ("poses", "probabilities", "any_azimuth")
        )
        right = right_poses(poses.double(), rotations.double(), is_open)
        scores = torch.where(shares > 0, log_positive(shares.double()), -torch.inf)
        fitted = fit_set_temperature(scores, right, partiality)
        found["orientation_temperature"], found["orientation_temperature_slope"] = fitted
    return Calibration(**found)


def fit_temperature(scores: Tensor, right: Tensor, partiality: Tensor, least: float = 0.0) -> tuple[float, float]:
    """Find the temperature, and its slope in partiality, under which the correct choices are most likely.

    Shapes without a correct choice, and those with correct ones only, do not matter. Slopes are not negative: at the
    same activation, a view is not trusted more than a whole shape. They have a wide normal prior, which decides where
    the partiality of shapes hardly differs, as if none of them is seen as a view. Four digits are kept: a few hundred
    shapes do not determine more.

    Args:
        scores: (N, C), the logarithms of activations of shapes that were held out; −∞ for padding.
        right: (N, C) bool, which choices are correct.
        partiality: (N,), of the shapes.
        least: the least temperature of a whole shape.

    Returns:
        The temperature of a whole shape and the slope of its logarithm; 1 and 0 if the most likely choice is correct
        for each shape, as the likelihood then has no maximum.
    """
    there = scores > -torch.inf
    right = right & there
    tells = right.any(-1) & (~right & there).any(-1)
    scores, right, there, partiality = (x[tells] for x in (scores, right, there, partiality.double()))
    if bool(right.gather(-1, scores.argmax(-1, keepdim=True)).all()):
        return 1.0, 0.0
    finite = torch.where(there, scores, 0)
    lowest = torch.maximum(-_LIMITS, _LIMITS.new_tensor((math.log(least) if least else -math.inf, -math.inf)))

    def loss(fitted: Tensor) -> Tensor:
        """The negative logarithm of likelihood and prior, for the logarithm of a temperature, and its slope."""
        heat, slope = fitted.clamp(lowest, _LIMITS)
        cold = finite * (-heat - slope * partiality).exp()[:, None]
        of_right, of_all = (torch.where(mask, cold, -torch.inf).logsumexp(-1) for mask in (right, there))
        return (of_all - of_right).sum() + 0.5 * (fitted[1] / _USUAL_SLOPE).square()

    fitted = _minimise(loss)
    if fitted[1] < 0:
        fitted = _minimise(lambda one: loss(one * one.new_tensor((1, 0))))
    heat, slope = fitted.clamp(lowest, _LIMITS).tolist()
    return float(f"{math.exp(heat):.4g}"), round(slope, 4) + 0.0  # never −0


def fit_set_temperature(scores: Tensor, right: Tensor, partiality: Tensor) -> tuple[float, float]:
    """Find the temperature, and its slope in partiality, under which 90% of the candidate sets hold a right pose.

    The likelihood ignores shapes without a right candidate, so its sets are too small where these are frequent, as
    among views. The temperature is fitted to the less partial half of the shapes, then the slope to the other half.
    Both have a prior, the temperature around that of the greatest likelihood, and keep its mean where the first
    candidate alone is right for 90%, as no set has fewer.

    Args:
        scores: (N, C), the logarithms of probabilities of candidates of shapes that were held out; −∞ for padding.
        right: (N, C) bool, which candidates are correct.
        partiality: (N,), of the shapes.

    Returns:
        The temperature of a whole shape and the slope of its logarithm, which is not negative.
    """
    order = scores.argsort(dim=-1, descending=True, stable=True)
    scores, right, partiality = scores.double().gather(-1, order), right.gather(-1, order), partiality.double()
    partial = partiality > partiality.median() if len(partiality) else partiality > 0
    whole = ~partial
    usual = math.log(fit_temperature(scores[whole], right[whole], torch.zeros_like(partiality[whole]))[0])
    heats = [min(max(usual + step / 20, -_HOTTEST), _HOTTEST) for step in range(-20, 21)]
    slopes = [step / 10 for step in range(int(10 * STEEPEST) + 1)]

    def misfit(half: Tensor, heat: float, slope: float, unusual: float) -> float:
        return _misfit(scores[half] / (heat + slope * partiality[half]).exp()[:, None], right[half], unusual)

    heat, slope = usual, 0.0
    for _ in range(2):  # the less partial half has some partiality, too
        heat = min(heats, key=lambda one: misfit(whole, one, slope, (one - usual) / _USUAL_CHANGE))
        slope = min(slopes, key=lambda one: misfit(partial, heat, one, one / _USUAL_SLOPE))
    return float(f"{math.exp(heat):.4g}"), slope


def _misfit(scores: Tensor, right: Tensor, unusual: float) -> float:
    """Standard deviations, squared, by which the share of right sets is off, and a parameter from its prior's mean."""
    off = 0.0
    if len(scores) and right[:, 0].double().mean() < _SHARE:
        held = (candidate_set(scores.softmax(-1)) & right).any(-1).double().mean()
        off = float(held - _SHARE) ** 2 * len(scores) / (_SHARE * (1 - _SHARE))
    return off + unusual**2


def candidate_set(probabilities: Tensor) -> Tensor:
    """Find the fewest candidates that have 90% of the probability.

    Args:
        probabilities: (..., K), of each cloud's candidates, the most likely first.

    Returns:
        (..., K) bool.
    """
    return (probabilities.cumsum(-1) - probabilities < _SHARE) & (probabilities > 0)


def _minimise(loss: Callable[[Tensor], Tensor]) -> Tensor:
    """Find the least loss of a temperature's logarithm and its slope: the best temperature of some, then both."""
    tried = [torch.tensor([heat, 0.0], dtype=torch.float64) for heat in torch.linspace(-_HOTTEST, _HOTTEST, 24)]
    found = min(tried, key=lambda one: float(loss(one))).requires_grad_()
    optimiser = torch.optim.LBFGS([found], max_iter=100, line_search_fn="strong_wolfe")

    def step() -> Tensor:
        optimiser.zero_grad()
        value = loss(found)
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimiser.step(step)  # type: ignore[no-untyped-call]
    return found.detach()
