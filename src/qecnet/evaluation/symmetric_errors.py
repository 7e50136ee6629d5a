"""Orientation errors up to the rotations that leave a shape of its class looking the same.

A class has one group, though its shapes differ (see `qecnet.datasets.symmetry`). A symmetric error is therefore too
low for some shapes and too high for others; it is reported along with the plain error, never instead of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike

from qecnet.algebra import angular_distance, conjugate, multiply
from qecnet.datasets import SymmetryGroup, symmetry_of
from qecnet.evaluation.metrics import Array, check_rotations, relative_rotation, rotation_angles

IDENTITY = np.array([1.0, 0.0, 0.0, 0.0])
"""The pose of an upright shape, WXYZ."""


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
