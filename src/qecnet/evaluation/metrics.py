"""Scores of predictions: accuracy with its interval, orientation errors (Tables 1 and 2 of the paper), calibration.

NumPy arrays go in, the dataclasses of `results` come out. Rotations are WXYZ, Hamilton, unit, last axis 4.

Symmetric errors are up to the rotations that leave a shape of its class looking the same. A class has one group, though
its shapes differ (see `qecnet.datasets.symmetry`). Such an error is therefore too low for some shapes and too high for
others; it is reported along with the plain error, never instead of it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from qecnet.algebra import angular_distance, conjugate, multiply
from qecnet.datasets import SymmetryGroup, symmetry_of
from qecnet.evaluation.results import (
    BINS,
    HISTOGRAM_BINS,
    Accuracy,
    CalibrationScores,
    ErrorGroups,
    ErrorSummary,
    RotationErrors,
)

Array = NDArray[Any]

IDENTITY = np.array([1.0, 0.0, 0.0, 0.0])
"""The pose of an upright shape, WXYZ."""

NO_SYM = ("chair", "bed", "sofa", "toilet", "monitor")
"""The classes of ModelNet10 that the paper averages as No_Sym: they look different after any rotation."""

EXPECTED_RANDOM_RAE = 1 / 2 + 2 / np.pi**2
"""The mean of angle/π for a rotation drawn uniformly from SO(3), 0.7026: what a random guess scores.

Its angle θ has the density (1 − cos θ)/π on [0, π], and ∫ θ cos θ dθ = −2 there, so that
E θ = (π²/2 + 2)/π = π/2 + 2/π. The angle between a guess and any truth has the same distribution.
"""

CALIBRATION_BINS = 15

_HISTOGRAM = np.deg2rad(np.linspace(0, 180, HISTOGRAM_BINS + 1))
_RESAMPLES = 1000
_OFF_UNIT = 1e-3


def score_classification(
    truth: ArrayLike, predicted: ArrayLike, shape: ArrayLike, classes: Sequence[str], seed: int
) -> Accuracy:
    """Score predicted classes of V views.

    The 95% interval is a percentile bootstrap over shapes with all their views, 1,000 resamples: views of one shape
    are right or wrong together. If all views are right its width is 0.

    Args:
        truth: (V,) true labels, indices into `classes`.
        predicted: (V,) predicted labels.
        shape: (V,) which shape each view shows.
        classes: the class names.
        seed: of the bootstrap.
    """
    t, p, s = np.asarray(truth), np.asarray(predicted), np.asarray(shape)
    if not len(t):
        raise ValueError("truth has no views; give at least one to score")
    count = len(classes)
    confusion = np.bincount(t * count + p, minlength=count * count).reshape(count, count)
    views, right = confusion.sum(1), confusion.diagonal()
    per_class = {c: float(r / n) if n else None for c, r, n in zip(classes, right, views, strict=True)}
    return Accuracy(
        float(right.sum() / len(t)),
        bootstrap_interval((t == p).astype(float), s, seed),
        float(np.mean([share for share in per_class.values() if share is not None])),
        per_class,
        tuple(map(tuple, confusion.tolist())),
    )


def rotation_angles(p: ArrayLike, q: ArrayLike) -> Array:
    """Compute the angles between rotations, in float64 (Eq. 3).

    Args:
        p: (..., 4) WXYZ.
        q: (..., 4) WXYZ.

    Returns:
        (...) in radians, from 0 to π.

    Raises:
        ValueError: if a quaternion is not finite or not of length 1.
    """
    return angular_distance(check_rotations("p", p), check_rotations("q", q)).numpy()


def relative_rotation(a: ArrayLike, b: ArrayLike) -> Array:
    """Compute the rotations from poses `a` to poses `b`, `b ∘ a⁻¹`, in float64.

    Args:
        a: (..., 4) WXYZ.
        b: (..., 4) WXYZ.

    Returns:
        (..., 4) WXYZ.

    Raises:
        ValueError: if a quaternion is not finite or not of length 1.
    """
    return multiply(check_rotations("b", b), conjugate(check_rotations("a", a))).numpy()


def symmetric_distance(predicted: ArrayLike, first: ArrayLike, second: ArrayLike, group: SymmetryGroup) -> Array:
    """Compute the error of a predicted rotation between two views, up to symmetry, in radians.

    For s in the group, `second ∘ s ∘ first⁻¹` takes the first view to one that looks like the second. The result is
    the least angle to one of these, never more than the plain error, to the last digit. It is also the angle from the
    error in the shape's own axes, e = `second⁻¹ ∘ predicted ∘ first`, to the group. Rotations about z are
    `(cos a/2, 0, 0, sin a/2)`; the greatest |⟨e, ·⟩| over all a is the length of e's part (w, z), and the rest of e,
    (x, y), is the sine of half the angle.

    A random guess gains from the group too: it scores 0.70 of π without symmetry and 0.5 with any rotation about z.

    Args:
        predicted: (..., 4), WXYZ.
        first: (..., 4) what rotated the upright shape into the first view; `IDENTITY` in canonical mode.
        second: (..., 4) the same for the second view.
        group: the symmetry of the class.

    Returns:
        (...) in radians.
    """
    plain = rotation_angles(predicted, relative_rotation(first, second))
    if group.order == 1:
        return plain
    p, a, b = (check_rotations(*one) for one in (("predicted", predicted), ("first", first), ("second", second)))
    error = multiply(multiply(conjugate(b), p), a)
    if group.order is None:
        w, x, y, z = error.unbind(-1)
        least = 2 * torch.atan2(torch.hypot(x, y), torch.hypot(w, z))
    else:
        least = angular_distance(error[..., None, :], torch.from_numpy(group.elements())).amin(-1)
    # The identity is in every group; taking its error as computed above leaves nothing to rounding.
    distance: Array = np.minimum(least.numpy(), plain)
    return distance


def symmetric_angles(
    predicted: ArrayLike, first: ArrayLike, second: ArrayLike, truth: ArrayLike, classes: Sequence[str]
) -> Array:
    """Compute `symmetric_distance` for V views or pairs, each with the symmetry of its class.

    Args:
        predicted: (V, 4) WXYZ.
        first: (V, 4) WXYZ, or one for all.
        second: (V, 4) WXYZ.
        truth: (V,) true labels, indices into `classes`.
        classes: the class names.

    Returns:
        (V,) in radians.
    """
    t = np.asarray(truth)
    p, a, b = (np.broadcast_to(np.asarray(q), (len(t), 4)) for q in (predicted, first, second))
    least = np.empty(len(t))
    for label in np.unique(t):
        rows = t == label
        least[rows] = symmetric_distance(p[rows], a[rows], b[rows], symmetry_of(classes[label]))
    return least


def summarize_errors(angles: ArrayLike, symmetric: ArrayLike) -> RotationErrors | None:
    """Summarize n orientation errors, plain and up to symmetry.

    Args:
        angles: (n,) in radians.
        symmetric: (n,) the same up to the class's symmetry.

    Returns:
        Their statistics, or None if n is 0. An error on the bound of a share counts as above it.
    """
    plain, up_to = np.asarray(angles), np.asarray(symmetric)
    if not len(plain):
        return None
    return RotationErrors(count=len(plain), symmetric=ErrorSummary(**_statistics(up_to)), **_statistics(plain))


def group_errors(angles: ArrayLike, symmetric: ArrayLike, truth: ArrayLike, classes: Sequence[str]) -> ErrorGroups:
    """Summarize errors of all views, of those in a class of `NO_SYM`, and of each class.

    Args:
        angles: (V,) in radians.
        symmetric: (V,) the same up to the class's symmetry.
        truth: (V,) true labels, indices into `classes`.
        classes: the class names.

    Returns:
        The statistics of each group; None for a group without views.
    """
    plain, up_to, t = np.asarray(angles), np.asarray(symmetric), np.asarray(truth)
    no_sym = np.isin(t, [i for i, name in enumerate(classes) if name in NO_SYM])
    return ErrorGroups(
        all_classes=summarize_errors(plain, up_to),
        no_sym=summarize_errors(plain[no_sym], up_to[no_sym]),
        per_class={name: summarize_errors(plain[t == i], up_to[t == i]) for i, name in enumerate(classes)},
    )


def score_calibration(probabilities: Array, labels: Array) -> CalibrationScores:
    """Compare confidence with accuracy.

    Args:
        probabilities: (V, C).
        labels: (V,) true labels.
    """
    confidence, right = probabilities.max(-1), probabilities.argmax(-1) == labels
    of_label = probabilities[np.arange(len(labels)), labels]
    return CalibrationScores(
        float(right.mean()),
        float(confidence.mean()),
        calibration_error(confidence, right),
        float(-np.log(np.maximum(of_label, np.finfo(np.float64).tiny)).mean()),
        _bin_confidence(confidence, right),
    )


def calibration_error(confidence: Array, right: Array) -> float:
    """Compute the expected calibration error: the mean distance between confidence and accuracy.

    Args:
        confidence: (V,), 0 to 1, in 15 bins of equal width, which are weighted by their views.
        right: (V,) whether each view was predicted correctly.

    Returns:
        The error, 0 to 1.
    """
    bins = _bin_confidence(confidence, right)
    return sum(abs(sure - share) * count for sure, share, count in bins) / len(confidence)


def _bin_confidence(confidence: Array, right: Array) -> tuple[tuple[float, float, int], ...]:
    """The mean confidence, the accuracy and the number of views of each bin that has any."""
    place = np.minimum((confidence * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    chosen = [place == number for number in np.unique(place)]
    return tuple((float(confidence[one].mean()), float(right[one].mean()), int(one.sum())) for one in chosen)


def bootstrap_interval(values: Array, shape: Array, seed: int) -> tuple[float, float]:
    """Compute the 95% interval of a mean over shapes drawn with replacement. `values` (V,), `shape` (V,)."""
    _, of_view = np.unique(shape, return_inverse=True)
    views, totals = np.bincount(of_view), np.bincount(of_view, values)
    resampled = np.random.default_rng(seed).integers(len(views), size=(_RESAMPLES, len(views)))
    low, high = np.percentile(totals[resampled].sum(1) / views[resampled].sum(1), (2.5, 97.5))
    return float(low), float(high)


def check_rotations(name: str, q: ArrayLike) -> Tensor:
    """Convert quaternions to float64 and normalise away float32 rounding. (..., 4) → (..., 4), WXYZ."""
    array = np.asarray(q, dtype=np.float64)
    if array.shape[-1:] != (4,):
        raise ValueError(f"{name} has shape {array.shape}; its shape must end in (4,)")
    length = np.linalg.norm(array, axis=-1, keepdims=True)
    if not (abs(length - 1) < _OFF_UNIT).all():
        raise ValueError(f"{name} has a quaternion that is not finite or not of length 1; give rotations")
    return torch.from_numpy(array / length)


def _statistics(radians: Array) -> dict[str, Any]:
    below = {degrees: float((radians < np.deg2rad(degrees)).mean()) for degrees in BINS}
    relative_error = radians / np.pi
    return {
        "mean": float(relative_error.mean()),
        "median": float(np.median(relative_error)),
        **{f"acc{degrees}": below[degrees] for degrees in (5, 15, 30)},
        "cumulative": tuple(below.values()),
        "histogram": tuple((np.histogram(radians, _HISTOGRAM)[0] / len(radians)).tolist()),
    }
