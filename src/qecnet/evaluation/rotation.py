"""Table 2: orientation errors, against the truth (canonical) and between two views (siamese, category)."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from qecnet.algebra import lq_median
from qecnet.evaluation.measurement import Measurement
from qecnet.evaluation.metrics import IDENTITY, group_errors, relative_rotation, rotation_angles, symmetric_angles
from qecnet.evaluation.predict import Predictions
from qecnet.evaluation.protocols import TestView
from qecnet.evaluation.results import ModeErrors, ProtocolName, RotationModes, RotationResult

_REFERENCES = 20
"""Upright training shapes of each class that tell where its capsule's canonical orientation is."""

Quaternions = NDArray[np.float64]
Angles = NDArray[np.float64]
Rows = NDArray[np.int64]


def measure_rotation(measurement: Measurement, rotations: int = 5, resamplings: int = 5) -> RotationResult:
    """Measure orientation errors over `rotations` × `resamplings` views of each test shape.

    - canonical: each view's pose against its rotation. A class's capsule has an orientation of its own that training
      did not set; it is estimated from upright training shapes (`canonical_poses`) and removed.
    - siamese: the relative pose of each two views of a shape with different points, against their relative rotation.
    - category: the same between views of different shapes of one class, which the dataset has aligned upright.

    Under "strict" each view has points of its own; under "paper" the rotations of one resampling share them.

    Args:
        measurement: what is measured, and how.
        rotations: rotations of each resampling.
        resamplings: resamplings of each shape.

    Returns:
        The result, for `write_result`.

    Raises:
        ValueError: if the network predicts no pose.
    """
    if not measurement.model.has_poses:
        raise ValueError(f"{measurement.model.name}: its network predicts no pose; measure its classification instead")
    reference = canonical_poses(measurement)
    views = _list_views(measurement.protocol, rotations, resamplings)
    found = measurement.predict(f"rotation-{measurement.protocol}", views)
    return RotationResult(
        **measurement.describe(found),
        rotations=rotations,
        resamplings=resamplings,
        modes=RotationModes(canonical_errors(found, reference), siamese_errors(found), category_errors(found)),
    )


def canonical_poses(measurement: Measurement) -> Quaternions:
    """Estimate each class capsule's pose of an upright shape, as the median over training shapes of the class.

    A class without training shapes has the identity.

    Returns:
        (C, 4) WXYZ.
    """
    items = measurement.dataset.items("train")
    shapes = [
        number
        for label in range(len(measurement.dataset.classes))
        for number in [n for n, item in enumerate(items) if item.label == label][:_REFERENCES]
    ]
    found = measurement.predict(f"canonical-{measurement.protocol}", [TestView(0, 0)], train_shapes=sorted(shapes))
    poses = torch.from_numpy(found.poses[:, 1]).double()
    of_class = torch.from_numpy(found.label) == torch.arange(len(found.classes))[:, None]
    medians = lq_median(poses.expand(*of_class.shape, 4), of_class.double())
    return np.where(of_class.any(-1, keepdim=True), medians, torch.from_numpy(IDENTITY))


def canonical_errors(found: Predictions, reference: Quaternions) -> ModeErrors:
    """Compare each view's rotation, `pose ∘ reference⁻¹` of the predicted class, with the true one."""
    predicted = relative_rotation(reference[found.predicted], found.poses[:, 0])
    first = np.broadcast_to(IDENTITY, predicted.shape)
    angles = _angles(predicted, first, found.rotation, found.label, found.classes)
    return _group(*angles, found.label, found.correct, found.classes)


def siamese_errors(found: Predictions) -> ModeErrors:
    """Compare `pose₂ ∘ pose₁⁻¹` of each two views of a shape with different points with `R₂ ∘ R₁⁻¹`."""
    return _pair_errors(found, *siamese_pairs(found.shape, found.resampling))


def category_errors(found: Predictions) -> ModeErrors:
    """Compare the same for each view of a shape and the same view of the next shape of its class.

    A class with one shape has no pair.
    """
    return _pair_errors(found, *category_pairs(found.shape, found.label))


def pair_angles(found: Predictions, first: Rows, second: Rows) -> tuple[Angles, Angles]:
    """Compute the errors of pairs of views in radians, plain and up to symmetry. Rows (P,), (P,) → (P,), (P,)"""
    predicted = relative_rotation(found.poses[first, 0], found.poses[second, 0])
    return _angles(predicted, found.rotation[first], found.rotation[second], found.label[first], found.classes)


def _pair_errors(found: Predictions, first: Rows, second: Rows) -> ModeErrors:
    correct = found.correct[first] & found.correct[second]
    return _group(*pair_angles(found, first, second), found.label[first], correct, found.classes)


def _angles(
    predicted: Quaternions, first: Quaternions, second: Quaternions, label: Rows, classes: Sequence[str]
) -> tuple[Angles, Angles]:
    plain = rotation_angles(predicted, relative_rotation(first, second))
    return plain, symmetric_angles(predicted, first, second, label, classes)


def _group(
    plain: Angles, symmetric: Angles, label: Rows, correct: NDArray[np.bool_], classes: Sequence[str]
) -> ModeErrors:
    return ModeErrors(
        group_errors(plain[correct], symmetric[correct], label[correct], classes),
        group_errors(plain, symmetric, label, classes),
    )


def category_pairs(shape: Rows, label: Rows) -> tuple[Rows, Rows]:
    """Pair each view of a shape with the same view of the next shape of its class, the last with the first.

    Args:
        shape: (V,) which shape each view shows; views of a shape are next to each other, equally many of each.
        label: (V,) the classes.

    Returns:
        The pairs' rows (P,), (P,).
    """
    views = int((shape == shape[0]).sum()) if len(shape) else 0
    firsts, seconds = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for index in np.unique(label):
        rows = np.flatnonzero(label == index).reshape(-1, views)
        if len(rows) > 1:
            firsts.append(rows.ravel())
            seconds.append(np.roll(rows, -1, axis=0).ravel())
    return np.concatenate(firsts), np.concatenate(seconds)


def siamese_pairs(shape: Rows, resampling: Rows) -> tuple[Rows, Rows]:
    """Pair each two views of one shape that differ in their resampling. (V,), (V,) → rows (P,), (P,)"""
    firsts, seconds = [], []
    order = np.argsort(shape, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(shape[order])) + 1):
        a, b = np.triu_indices(len(rows), 1)
        different = resampling[rows[a]] != resampling[rows[b]]
        firsts.append(rows[a[different]])
        seconds.append(rows[b[different]])
    return np.concatenate(firsts), np.concatenate(seconds)


def _list_views(protocol: ProtocolName, rotations: int, resamplings: int) -> list[TestView]:
    pairs = [(r, t) for r in range(resamplings) for t in range(rotations)]
    return [TestView(r * rotations + t if protocol == "strict" else r, t + 1) for r, t in pairs]
