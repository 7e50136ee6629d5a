"""Confidence against accuracy, and the calibration that brings the two together."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from qecnet.algebra import random_quaternion
from qecnet.datasets import TRAINING_CAMERA, Dataset, Item, derive_seed, sample_view, stratified_split
from qecnet.evaluation.measurement import Measurement
from qecnet.evaluation.metrics import CALIBRATION_BINS, score_calibration
from qecnet.evaluation.results import CalibrationResult, CalibrationSplit
from qecnet.evaluation.rows import map_shapes
from qecnet.files import read_tensors, write_tensors
from qecnet.geometry import OrientedPoints, PrepareConfig, prepare, sample_points
from qecnet.nn import Calibration, Network, Prediction, candidate_set, fit_calibration, right_poses


def measure_calibration(
    measurement: Measurement, rotations: int = 5, unlabelled: Dataset | None = None
) -> CalibrationResult:
    """Calibrate a model on held-out training shapes, as training does, and measure the calibration error.

    Held-out shapes are seen as the model was trained on them, once whole and, if it was trained on views, once as a
    camera sees them. Each is resampled and rotated before frames are estimated.

    Args:
        measurement: what is measured, and how; the protocol is "strict".
        rotations: number of rotated views of each test shape.
        unlabelled: the dataset of the setting `unlabelled`, of which a part is held out, too.

    Returns:
        The result, for `write_result`.

    Raises:
        ValueError: if the model was trained without holding shapes out.
    """
    held = _held_out(measurement, unlabelled)
    model, views = measurement.model, measurement.model.settings.get("views", 0) > 0
    how = model.config, model.setting("keep"), views
    jobs = [(derive_seed(measurement.seed, number), item, *how) for number, (item, _) in enumerate(held)]
    label = "calibration: shapes" if measurement.progress else None
    found = [pickle.loads(row) for row in map_shapes(_predict_shape, jobs, model.network, measurement.workers, label)]
    labels = torch.tensor([label for (_, label), (_, q) in zip(held, found, strict=True) for _ in q])
    predictions, turns = [prediction for prediction, _ in found], [q for _, q in found]
    seen = bool(model.settings.get("start"))
    calibration = fit_calibration(predictions, labels, torch.cat(turns), seen)
    test = measurement.predict_test_views(rotations)
    named, classed = labels >= 0, sum(label >= 0 for _, label in held)
    activations, partiality = (
        torch.cat([getattr(one, name) for one in predictions])[named] for name in ("activations", "partiality")
    )
    return CalibrationResult(
        **measurement.describe(test),
        rotations=rotations,
        **asdict(calibration),
        bins=CALIBRATION_BINS,
        held_out=_score(classed, calibration, activations, partiality, labels[named]),
        test=_score(
            len(np.unique(test.shape)),
            calibration,
            *map(torch.from_numpy, (test.activations, test.partiality, test.label)),
        ),
        candidate_sets=_score_sets(predictions, turns, calibration),
    )


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Write a calibration into a weights file, whose tensors stay as they are.

    Args:
        path: the weights file.
        calibration: what `measure_calibration` fitted.
    """
    tensors, about = read_tensors(path)
    write_tensors(path, tensors, about | asdict(calibration))


def _predict_shape(
    network: Network, seed: int, item: Item, config: PrepareConfig, keep: float, has_view: bool
) -> bytes:
    """Predict a shape, whole and, where it is asked for, as a view; also the rotations (1 or 2, 4) of both.

    Packed, as torch would send each tensor by a file handle of its own.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = item.load()
    clouds = [sample_points(shape, config.points, generator, keep)]
    if has_view:
        try:
            clouds.append(sample_view(shape, generator, TRAINING_CAMERA).cloud)
        except ValueError:  # cameras hardly see it, and training takes all of its points instead
            clouds.append(sample_points(shape, config.points, generator, keep))
    turns = random_quaternion(len(clouds), generator, dtype=torch.float64)
    rotated = [replace(cloud, normals=None).rotated(q) for cloud, q in zip(clouds, turns, strict=True)]
    found = network(OrientedPoints.stack([prepare(cloud, config, generator) for cloud in rotated]))
    return pickle.dumps((found, turns))


def _score(
    shapes: int, calibration: Calibration, activations: Tensor, partiality: Tensor, labels: Tensor
) -> CalibrationSplit:
    """Score before and after; before, the activations are only made to add up to 1."""
    scored = (
        score_calibration(one.class_probabilities(activations.double(), partiality.double()).numpy(), labels.numpy())
        for one in (Calibration(), calibration)
    )
    return CalibrationSplit(shapes, len(labels), *scored)


def _score_sets(
    predictions: Sequence[Prediction], turns: Sequence[Tensor], calibration: Calibration
) -> dict[str, float] | None:
    """How often the fewest candidates with 90% of the probability contain a right pose, of whole shapes and views."""
    held: dict[str, list[bool]] = {}
    for prediction, q in zip(predictions, turns, strict=True):
        if (found := calibration.apply(prediction).orientations) is None:
            return None
        in_set = candidate_set(found.probabilities.double())
        holds = (in_set & right_poses(found.poses.double(), q, found.any_azimuth)).any(-1)
        for kind, one in zip(("whole", "views"), holds.tolist(), strict=False):
            held.setdefault(kind, []).append(one)
    return {kind: float(np.mean(values)) for kind, values in held.items()}


def _held_out(measurement: Measurement, unlabelled: Dataset | None) -> list[tuple[Item, int]]:
    """Find the shapes that the model's training held out, with the labels of its classes, -1 for those without one."""
    model = measurement.model
    share = model.settings.get("validation", 0)
    if not share:
        raise ValueError(
            f"{model.name}: was trained without a held-out part (validation is 0), so nothing can be calibrated; "
            "train it with --set validation=0.1"
        )
    place = {kind: label for label, kind in enumerate(model.classes)}
    shapes = [
        (item, place.get(measurement.dataset.classes[item.label], -1)) for item in measurement.dataset.items("train")
    ]
    groups = [item.label for item, _ in shapes]
    if unlabelled is not None:
        shapes += [(item, -1) for item in unlabelled.items("train")]
        groups += [max(groups) + 1] * (len(shapes) - len(groups))
    return [shapes[number] for number in stratified_split(groups, share, seed=0)[1]]
