"""How right a model is: accuracies with their interval, and errors of rotation (Tab. 1 and 2 of the paper).

NumPy arrays go in, dictionaries that JSON can hold come out. Rotations are WXYZ, Hamilton, unit, last axis 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from qecnet.algebra import angular_distance, conjugate, multiply

Array = NDArray[Any]

NO_SYM = ("chair", "bed", "sofa", "toilet", "monitor")
"""The classes of ModelNet10 that the paper averages as No_Sym: a turned one looks different."""

BINS = (5, 10, 15, 20, 25, 30, 45, 60)
"""Degrees of the cumulative error histogram.

The paper's appendix draws its bins in a figure and lists none in the text, but for the last, 60°; the others are ours.
"""

EXPECTED_RANDOM_RAE = 1 / 2 + 2 / np.pi**2
"""The mean of angle/π for a rotation drawn uniformly from SO(3), 0.7026: what a guess scores.

Its angle θ has the density (1 − cos θ)/π on [0, π], and ∫ θ cos θ dθ = −2 there, so that
E θ = (π²/2 + 2)/π = π/2 + 2/π. The angle between a guess and any truth has the same distribution.
"""

_HISTOGRAM = np.deg2rad(np.arange(0, 181, 5))
_DRAWS = 1000
_OFF_UNIT = 1e-3


def classification(
    truth: ArrayLike, predicted: ArrayLike, shape: ArrayLike, classes: Sequence[str], seed: int
) -> dict[str, Any]:
    """How often views are named right: `truth` and `predicted` (V,) index into `classes`; `shape` (V,) says of what.

    - `accuracy` over all views, and its 95% `interval`. Views of one shape are right or wrong together, so shapes are
      drawn, with all their views: the percentile bootstrap, 1,000 draws. Where all views are right its width is 0.
    - `per_class`: by name; None for a class without views. `mean_class`: the mean over the others.
    - `confusion`: counts, a row for each truth.
    """
    t, p = labels("truth", truth, classes), labels("predicted", predicted, classes)
    s = np.asarray(shape)
    if not len(t) == len(p) == len(s):
        raise ValueError(
            f"truth, predicted and shape have {len(t)}, {len(p)} and {len(s)} values; there is one of each a view"
        )
    if not len(t):
        raise ValueError("truth has no views; there is nothing to score")
    count = len(classes)
    confusion = np.bincount(t * count + p, minlength=count * count).reshape(count, count)
    views, right = confusion.sum(1), confusion.diagonal()
    per_class = {c: float(r / n) if n else None for c, r, n in zip(classes, right, views, strict=True)}
    return {
        "accuracy": float(right.sum() / len(t)),
        "interval": _interval(t == p, s, seed),
        "mean_class": float(np.mean([share for share in per_class.values() if share is not None])),
        "per_class": per_class,
        "confusion": confusion.tolist(),
    }


def angles(p: ArrayLike, q: ArrayLike) -> Array:
    """The angle between rotations in radians, 0..π, in float64 (Eq. 3). (..., 4), (..., 4), WXYZ → (...)."""
    return angular_distance(rotations("p", p), rotations("q", q)).numpy()


def relative(a: ArrayLike, b: ArrayLike) -> Array:
    """What turns pose `a` into pose `b`: `b ∘ a⁻¹`, in float64. (..., 4), (..., 4), WXYZ → (..., 4)."""
    return multiply(rotations("b", b), conjugate(rotations("a", a))).numpy()


def rotation_row(angles: ArrayLike, symmetric: ArrayLike) -> dict[str, Any] | None:
    """What is said of n errors of rotation, plain and up to symmetry, (n,) and (n,) in radians; None where n is 0.

    `mean` and `median` are of the relative angular error, angle/π; `acc5`, `acc15`, `acc30` and `cumulative` are the
    shares below so many degrees, a value on the bound being above; `histogram` has bins of 5°.
    """
    plain, up_to = _radians("angles", angles), _radians("symmetric", symmetric)
    if len(plain) != len(up_to):
        raise ValueError(f"angles and symmetric have {len(plain)} and {len(up_to)} values; there is one of each a view")
    if not len(plain):
        return None
    return {"count": len(plain), **_summary(plain), "symmetric": _summary(up_to)}


def rotation_groups(
    angles: ArrayLike, symmetric: ArrayLike, truth: ArrayLike, classes: Sequence[str], no_sym: Sequence[str] = NO_SYM
) -> dict[str, Any]:
    """The `rotation_row` of all views, of those in a class of `no_sym`, and of each class by its name.

    `angles` and `symmetric` (V,) in radians; `truth` (V,) indexes into `classes`.
    """
    plain, up_to, t = _radians("angles", angles), _radians("symmetric", symmetric), labels("truth", truth, classes)
    if len(t) != len(plain):
        raise ValueError(f"angles and truth have {len(plain)} and {len(t)} values; there is one of each a view")
    apart = np.isin(t, [i for i, name in enumerate(classes) if name in no_sym])
    return {
        "all_classes": rotation_row(plain, up_to),
        "no_sym": rotation_row(plain[apart], up_to[apart]),
        "per_class": {name: rotation_row(plain[t == i], up_to[t == i]) for i, name in enumerate(classes)},
    }


def rotations(name: str, q: ArrayLike) -> Tensor:
    """Quaternions as float64, made unit to its last digit, which float32 leaves open. (..., 4) → (..., 4), WXYZ."""
    array = np.asarray(q, dtype=np.float64)
    if array.shape[-1:] != (4,):
        raise ValueError(f"{name} has shape {array.shape}; its shape must end in (4,)")
    length = np.linalg.norm(array, axis=-1, keepdims=True)
    if not (abs(length - 1) < _OFF_UNIT).all():
        raise ValueError(f"{name} has a quaternion that is not finite or not of length 1; that is no rotation")
    return torch.from_numpy(array / length)


def labels(name: str, values: ArrayLike, classes: Sequence[str]) -> Array:
    """Labels as int64, each of them an index into `classes`. (V,) → (V,)."""
    array = np.asarray(values, dtype=np.int64)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; it is one label a view, (V,)")
    if len(array) and not 0 <= array.min() <= array.max() < len(classes):
        raise ValueError(f"{name} has labels {array.min()} to {array.max()}; there are {len(classes)} classes, from 0")
    return array


def _interval(right: Array, shape: Array, seed: int) -> list[float]:
    """95% of the accuracies of as many shapes drawn with replacement. `right` (V,) bool, `shape` (V,)."""
    _, of_view = np.unique(shape, return_inverse=True)
    views, hits = np.bincount(of_view), np.bincount(of_view, right)
    drawn = np.random.default_rng(seed).integers(len(views), size=(_DRAWS, len(views)))
    low, high = np.percentile(hits[drawn].sum(1) / views[drawn].sum(1), (2.5, 97.5))
    return [float(low), float(high)]


def _summary(radians: Array) -> dict[str, Any]:
    below = {degrees: float((radians < np.deg2rad(degrees)).mean()) for degrees in BINS}
    relative_error = radians / np.pi
    return {
        "mean": float(relative_error.mean()),
        "median": float(np.median(relative_error)),
        **{f"acc{degrees}": below[degrees] for degrees in (5, 15, 30)},
        "cumulative": list(below.values()),
        "histogram": (np.histogram(radians, _HISTOGRAM)[0] / len(radians)).tolist(),
    }


def _radians(name: str, values: ArrayLike) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; it is one angle a view, (V,)")
    if not ((array >= 0) & (array <= np.pi)).all():
        raise ValueError(f"{name} has a value that is no angle between rotations; those are 0 to π radians")
    return array
