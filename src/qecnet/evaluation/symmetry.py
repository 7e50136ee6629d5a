"""The error of a rotation up to the turns that leave a shape of its class looking the same.

A class has one group, though its shapes differ (see `qecnet.datasets.symmetry`). So a symmetric error is generous to
some shapes and strict with others, and stands beside the plain one, never instead of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike

from qecnet.algebra import angular_distance, conjugate, multiply
from qecnet.datasets import SymmetryGroup, symmetry_of
from qecnet.evaluation.metrics import Array, angles, labels, relative, rotations

IDENTITY = np.array([1.0, 0.0, 0.0, 0.0])
"""The pose of an upright shape, WXYZ."""


def symmetric_distance(predicted: ArrayLike, first: ArrayLike, second: ArrayLike, group: SymmetryGroup) -> Array:
    """How far a predicted rotation between two views is from a right one, in radians. All (..., 4), WXYZ → (...).

    `first` and `second` turned the upright shape into the views. With s of the group, `second ∘ s ∘ first⁻¹` takes the
    first view into what looks like the second; the result is the least angle to one of these, never more than
    `angles(predicted, relative(first, second))`, to the last digit. The first view of canonical mode is the upright
    shape: `first=IDENTITY`.

    Angles do not change when both rotations are turned alike, so it is also the angle from the error e in the shape's
    own axes, `second⁻¹ ∘ predicted ∘ first`, to the group. Turns about z are `(cos a/2, 0, 0, sin a/2)`; the greatest
    |⟨e, ·⟩| over all a is the length of e's part (w, z), and what is left of e, (x, y), is the sine of half the angle.

    A guess gains by the group too: it scores 0.70 of π with no symmetry and 0.5 with any turn, the mean angle between
    two up axes.
    """
    plain = angles(predicted, relative(first, second))
    if group.order == 1:
        return plain
    p, a, b = rotations("predicted", predicted), rotations("first", first), rotations("second", second)
    error = multiply(multiply(conjugate(b), p), a)
    if group.order is None:
        w, x, y, z = error.unbind(-1)
        least = 2 * torch.atan2(torch.hypot(x, y), torch.hypot(w, z))
    else:
        least = angular_distance(error[..., None, :], torch.from_numpy(group.elements())).amin(-1)
    # The identity is in every group; counting it as the plain error is computed leaves nothing to rounding.
    distance: Array = np.minimum(least.numpy(), plain)
    return distance


def symmetric_angles(
    predicted: ArrayLike, first: ArrayLike, second: ArrayLike, truth: ArrayLike, classes: Sequence[str]
) -> Array:
    """`symmetric_distance` of V views or pairs, each with its class's group. (V, 4) each, (V,) labels → (V,)."""
    t = labels("truth", truth, classes)
    p, a, b = (np.broadcast_to(np.asarray(q), (len(t), 4)) for q in (predicted, first, second))
    least = np.empty(len(t))
    for label in np.unique(t):
        rows = t == label
        least[rows] = symmetric_distance(p[rows], a[rows], b[rows], symmetry_of(classes[label]))
    return least
