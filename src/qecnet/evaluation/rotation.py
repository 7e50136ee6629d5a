"""Table 2: which way a shape is turned, against the truth (canonical) and between two views (siamese)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from qecnet.algebra import lq_median
from qecnet.datasets import Dataset
from qecnet.evaluation.metrics import angles, relative, rotation_groups
from qecnet.evaluation.predict import Model, Predictions, predict
from qecnet.evaluation.protocol import Protocol, Task, View
from qecnet.evaluation.result import described
from qecnet.evaluation.symmetry import IDENTITY, symmetric_angles
from qecnet.models.inputs import prepare_config

_REFERENCES = 20
"""Upright training shapes of each class that tell where its capsule's canonical orientation is."""

Quaternions = NDArray[np.float64]


def measure_rotation(
    model: Model,
    dataset: Dataset,
    folder: Path,
    protocol: Protocol,
    *,
    rotations: int = 5,
    resamplings: int = 5,
    shapes: Sequence[int] | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """`rotations` × `resamplings` views of each test shape.

    - canonical: each view's pose against its rotation. A class's capsule has an orientation of its own that nobody told
      it; it is read off upright training shapes (`canonical_poses`) and taken out.
    - siamese: the relative pose of each two views of a shape with different points, against their relative rotation.
    - category: the same between views of different shapes of one class, which the dataset has aligned upright.

    Under "strict" each view has points of its own; under "paper" the rotations of one resampling share them.

    Args:
        shapes: numbers of the test shapes that are measured; all of them by default.
    """
    if not model.has_poses:
        raise ValueError(f"{model.path}: its network names shapes and has no pose to give; there is nothing to measure")
    task = Task(protocol, prepare_config(model.settings), model.settings["keep"], seed)
    views = _views(protocol, rotations, resamplings)
    into = folder / f"rotation-{protocol}.npz"
    reference = canonical_poses(model, dataset, folder, task, workers, progress)
    found = predict(model, dataset, "test", task, views, into, shapes=shapes, workers=workers, progress=progress)
    return described("rotation", protocol, model, dataset, found, seed) | {
        "rotations": rotations,
        "resamplings": resamplings,
        "modes": {
            "canonical": canonical_errors(found, reference),
            "siamese": siamese_errors(found),
            "category": category_errors(found),
        },
    }


def canonical_poses(
    model: Model, dataset: Dataset, folder: Path, task: Task, workers: int | None, progress: bool
) -> Quaternions:
    """(C, 4) WXYZ: each class capsule's pose of an upright shape, as the median over training shapes of the class.

    Of a class without training shapes nothing is known, and its capsule is taken at its word: the identity.
    """
    items = dataset.items("train")
    shapes = [
        number
        for label in range(len(dataset.classes))
        for number in [n for n, item in enumerate(items) if item.label == label][:_REFERENCES]
    ]
    into = folder / f"canonical-{task.protocol}.npz"
    found = predict(
        model, dataset, "train", task, [View(0, 0)], into, shapes=sorted(shapes), workers=workers, progress=progress
    )
    poses = torch.from_numpy(found.poses[:, 1]).double()
    of_class = torch.from_numpy(found.label) == torch.arange(len(found.classes))[:, None]
    medians = lq_median(poses.expand(*of_class.shape, 4), of_class.double())
    return np.where(of_class.any(-1, keepdim=True), medians, torch.from_numpy(IDENTITY))


def canonical_errors(found: Predictions, reference: Quaternions) -> dict[str, Any]:
    """Each view's predicted rotation, `pose ∘ reference⁻¹` of the predicted class, against the true one."""
    poses = found.poses[:, 0].astype(np.float64)
    predicted = relative(reference[found.predicted], poses)
    return _errors(predicted, IDENTITY, found.rotation, found.label, found.correct, found.classes)


def siamese_errors(found: Predictions) -> dict[str, Any]:
    """`pose₂ ∘ pose₁⁻¹` for each two views of a shape with different points, against `R₂ ∘ R₁⁻¹`."""
    return _pair_errors(found, *pairs(found.shape, found.resampling))


def _pair_errors(found: Predictions, first: NDArray[np.int64], second: NDArray[np.int64]) -> dict[str, Any]:
    poses = found.poses[:, 0].astype(np.float64)
    predicted = relative(poses[first], poses[second])
    correct = found.correct[first] & found.correct[second]
    turned = found.rotation[first], found.rotation[second]
    return _errors(predicted, *turned, found.label[first], correct, found.classes)


def category_errors(found: Predictions) -> dict[str, Any]:
    """`pose₂ ∘ pose₁⁻¹` for each view of a shape and the same view of the next shape of its class, against `R₂ ∘ R₁⁻¹`.

    A class with one shape has no pair.
    """
    first, second = neighbours(found.shape, found.label)
    return _pair_errors(found, first, second)


def neighbours(shape: NDArray[np.int64], label: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows (P,), (P,) of each view of a shape and the same view of the next shape of its class, in a circle.

    Every shape has its views next to each other, and the same number of them.
    """
    views = int((shape == shape[0]).sum()) if len(shape) else 0
    firsts, seconds = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for index in np.unique(label):
        rows = np.flatnonzero(label == index).reshape(-1, views)
        if len(rows) > 1:
            firsts.append(rows.ravel())
            seconds.append(np.roll(rows, -1, axis=0).ravel())
    return np.concatenate(firsts), np.concatenate(seconds)


def pairs(shape: NDArray[np.int64], resampling: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows (P,), (P,) of each two views of one shape that differ in their resampling."""
    firsts, seconds = [], []
    order = np.argsort(shape, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(shape[order])) + 1):
        a, b = np.triu_indices(len(rows), 1)
        different = resampling[rows[a]] != resampling[rows[b]]
        firsts.append(rows[a[different]])
        seconds.append(rows[b[different]])
    return np.concatenate(firsts), np.concatenate(seconds)


def _errors(
    predicted: Quaternions,
    first: Quaternions,
    second: Quaternions,
    label: NDArray[np.int64],
    correct: NDArray[np.bool_],
    classes: tuple[str, ...],
) -> dict[str, Any]:
    """Groups of the contract, over what was named right and over everything."""
    plain = angles(predicted, relative(first, second))
    symmetric = symmetric_angles(predicted, first, second, label, classes)
    return {
        "correct": rotation_groups(plain[correct], symmetric[correct], label[correct], classes),
        "all": rotation_groups(plain, symmetric, label, classes),
    }


def _views(protocol: Protocol, rotations: int, resamplings: int) -> list[View]:
    if protocol == "strict":
        return [View(r * rotations + t, t + 1) for r in range(resamplings) for t in range(rotations)]
    return [View(r, t + 1) for r in range(resamplings) for t in range(rotations)]
