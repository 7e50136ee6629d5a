"""Pairs of views and how far they are from aligned; which of them, and which views, to look at.

Rows are those of `Predictions`. Rotations are WXYZ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qecnet.evaluation.metrics import angles, relative
from qecnet.evaluation.predict import Predictions
from qecnet.evaluation.rotation import pairs
from qecnet.evaluation.symmetry import symmetric_angles

Rows = NDArray[np.int64]
_DRAWS = 1000


@dataclass(frozen=True)
class Pairs:
    """P pairs of views of one class: `first` and `second` (P,) are rows, the errors (P,) are in radians."""

    first: Rows
    second: Rows
    plain: NDArray[Any]
    symmetric: NDArray[Any]

    def where(self, chosen: NDArray[Any]) -> Pairs:
        """The pairs that are chosen, by a mask or by number."""
        return Pairs(self.first[chosen], self.second[chosen], self.plain[chosen], self.symmetric[chosen])


def same_shape(found: Predictions) -> Pairs:
    """Each two views of a shape with different points: what Table 2 calls siamese."""
    return _measured(found, *pairs(found.shape, found.resampling))


def same_class(found: Predictions) -> Pairs:
    """The first view of each shape that is named right with that of the next shape of its class."""
    firsts, seconds = [], []
    _, first_row = np.unique(np.where(found.correct, found.shape, -1), return_index=True)
    first_row = first_row[found.correct[first_row]]
    for label in range(len(found.classes)):
        of_class = first_row[found.label[first_row] == label]
        firsts.append(of_class[:-1])
        seconds.append(of_class[1:])
    return _measured(found, np.concatenate(firsts), np.concatenate(seconds))


def _measured(found: Predictions, first: Rows, second: Rows) -> Pairs:
    poses = found.poses[:, 0].astype(np.float64)
    predicted = relative(poses[first], poses[second])
    turned = found.rotation[first], found.rotation[second]
    plain = angles(predicted, relative(*turned))
    return Pairs(first, second, plain, symmetric_angles(predicted, *turned, found.label[first], found.classes))


def typical(found: Predictions, among: Pairs) -> Pairs:
    """Of each class that has pairs, the one whose symmetric error is its median; classes in their order."""
    label = found.label[among.first]
    chosen = []
    for one in np.unique(label):
        of_class = np.flatnonzero(label == one)
        chosen.append(of_class[np.argsort(among.symmetric[of_class], kind="stable")[(len(of_class) - 1) // 2]])
    return among.where(np.array(chosen, dtype=np.int64))


def worst_poses(found: Predictions, among: Pairs, count: int) -> Pairs:
    """The largest symmetric errors of pairs that are both named right, one for each shape, the largest first."""
    named = among.where(found.correct[among.first] & found.correct[among.second])
    order = np.argsort(-named.symmetric, kind="stable")
    _, place = np.unique(found.shape[named.first[order]], return_index=True)
    return named.where(order[np.sort(place)[:count]])


def worst_names(found: Predictions, count: int) -> Rows:
    """Rows that are named wrong by the widest margin of activation, one for each shape, the widest first."""
    each = np.arange(len(found.label))
    margin = found.activations[each, found.predicted] - found.activations[each, found.label]
    wrong = np.flatnonzero(~found.correct)
    order = wrong[np.argsort(-margin[wrong], kind="stable")]
    _, place = np.unique(found.shape[order], return_index=True)
    return order[np.sort(place)[:count]]


def mean_interval(found: Predictions, classes: Sequence[str], only_correct: bool) -> tuple[float, float] | None:
    """The 95% interval of the mean plain error, angle/π, of siamese pairs of these classes; None where there are none.

    Pairs of a shape go together: shapes are drawn with replacement, 1,000 times, as for accuracies.
    """
    among = same_shape(found)
    kept = np.isin(found.label[among.first], [i for i, name in enumerate(found.classes) if name in classes])
    if only_correct:
        kept &= found.correct[among.first] & found.correct[among.second]
    if not kept.any():
        return None
    _, shape = np.unique(found.shape[among.first[kept]], return_inverse=True)
    count, total = np.bincount(shape), np.bincount(shape, among.plain[kept] / np.pi)
    drawn = np.random.default_rng(0).integers(len(count), size=(_DRAWS, len(count)))
    low, high = np.percentile(total[drawn].sum(1) / count[drawn].sum(1), (2.5, 97.5))
    return float(low), float(high)
