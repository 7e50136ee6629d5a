"""Accuracy and orientation error on views of one side of a shape, next to those on whole shapes."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qecnet.algebra import random_quaternion, rotate
from qecnet.datasets import NO_SYMMETRY, Item, derive_seed, sample_view, symmetry_of
from qecnet.evaluation.measurement import CountedViews, Measurement
from qecnet.evaluation.metrics import IDENTITY, calibration_error, symmetric_distance
from qecnet.evaluation.results import ViewScores, ViewsResult
from qecnet.evaluation.rows import hash_inputs
from qecnet.fingerprint import code_hash
from qecnet.geometry import sample_points
from qecnet.models import Answer, Model
from qecnet.nn import SAME_DIRECTION, right_poses

SHARES = (0.0, 0.3, 0.4, 0.5, 1.0)
"""Bounds of the groups of views by the share of the surface that is visible."""

_UP = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)

_ROW = np.dtype(
    [
        ("shape", "<i8"),
        ("kind", "<i8"),
        ("is_view", "?"),
        ("is_answered", "?"),
        ("points", "<i8"),
        ("visible", "<f8"),
        ("correct", "?"),
        ("correct_known_up", "?"),
        ("confidence", "<f8"),
        ("first_three", "?"),
        ("set_holds_pose", "?"),
        ("set_size", "<i8"),
        ("up", "<f8"),
        ("pose", "<f8"),
        ("pose_known_up", "<f8"),
        ("centre", "<f8"),
        ("size", "<f8"),
    ]
)
"""What was predicted of a whole shape or of a view; all zeros from `points` on if there is no answer.

The size of the set of candidates is 0 for a network that compares none.
"""


def measure_views(measurement: Measurement) -> ViewsResult:
    """Predict each test shape twice, whole and as one camera sees it, each in a random pose of its own.

    A dataset that shares no class with the model is measured by orientation alone; a model that can do without its
    classes is measured without them, as `qec orient` uses it.

    Args:
        measurement: what is measured, and how; the protocol is "strict".

    Returns:
        The result, for `write_result`.

    Raises:
        ValueError: if the network predicts no pose, or has no answer for any of the shapes.
    """
    model, dataset = measurement.model, measurement.dataset
    if not model.has_poses:
        raise ValueError(f"{model.name}: its network predicts no pose; measure its classification instead")
    items = dataset.items("test")
    common = tuple(name for name in dataset.classes if name in model.classes)
    if not common:
        with suppress(ValueError):  # its network needs classes
            model = model.without_classes()
            measurement = replace(measurement, model=model)
    numbers = range(len(items)) if measurement.shapes is None else measurement.shapes
    numbers = [n for n in numbers if not common or dataset.classes[items[n].label] in common]
    code = [
        code_hash("qecnet.models", "*.py"),
        code_hash("qecnet.evaluation", "views.py", "metrics.py"),
        code_hash("qecnet.datasets", "symmetry.py"),
    ]
    about = [measurement.seed, dataset.classes, bool(common), asdict(model.calibration), code]
    key = hash_inputs(model, dataset, "test", numbers, about)
    jobs = [(measurement.seed, n, items[n], dataset.classes if common else None) for n in numbers]
    rows = measurement.compute_rows("views-strict", key, _ROW, 2, _measure_shape, model, jobs)
    answered = rows[rows["is_answered"]]
    if not len(answered):
        raise ValueError(f"{dataset.name}: {model.name} has no answer for any of its test shapes; measure other shapes")
    views = answered[answered["is_view"]]
    counted = CountedViews(common or dataset.classes, answered["shape"], (views if len(views) else answered)["points"])
    return ViewsResult(
        **measurement.describe(counted, "strict") | ({} if common else {"missing": ()}),
        no_answer=len(rows) - len(answered),
        groups=_group(answered, bool(common)),
        whole_by_kind=_by_kind(answered[~answered["is_view"]], dataset.classes, bool(common)),
        views_by_kind=_by_kind(views, dataset.classes, bool(common)),
    )


def _measure_shape(model: Model, seed: int, number: int, item: Item, classes: Sequence[str] | None) -> bytes:
    """The rows of a whole shape and of a view of it."""
    generator = torch.Generator().manual_seed(derive_seed(seed, number))
    shape = item.load()
    rows = np.zeros(2, _ROW)
    rows["shape"], rows["kind"], rows["is_view"] = number, item.label, (False, True)
    try:
        view = sample_view(shape, generator)
    except ValueError:  # cameras hardly see it from any side
        view = None
    whole = sample_points(shape, model.config.points, generator)
    middle = whole.points.double().mean(0)
    radius = float((whole.points.double() - middle).norm(dim=-1).amax())
    group = symmetry_of(classes[item.label]) if classes else NO_SYMMETRY
    for row, cloud in zip(rows, (whole, None if view is None else view.cloud), strict=True):
        q = random_quaternion((), generator, dtype=torch.float64)
        if cloud is None:
            continue
        rotated, up = replace(cloud, normals=None).rotated(q), rotate(q, _UP)
        try:
            answer, known_up = model.predict(rotated), model.predict(rotated, up=up)
        except ValueError:  # flat, or too few points in view
            continue
        row["is_answered"], row["points"] = True, min(len(rotated), model.config.points)
        row["visible"] = view.visible if view and row["is_view"] else 1
        if classes:
            row["correct"], row["correct_known_up"] = (a.label == classes[item.label] for a in (answer, known_up))
        row["confidence"] = answer.confidence if classes else answer.up_confidence
        row["first_three"] = any(float(one.direction @ up) >= SAME_DIRECTION for one in answer.ups[:3])
        row["set_holds_pose"], row["set_size"] = _look_at_set(answer, q)
        row["up"] = float((rotate(answer.pose, _UP) @ up).clamp(-1, 1).arccos().rad2deg())
        row["pose"], row["pose_known_up"] = (
            float(np.rad2deg(symmetric_distance(one.pose, IDENTITY, q, group))) for one in (answer, known_up)
        )
        row["centre"] = float((answer.centre - rotate(q, middle)).norm()) / radius
        row["size"] = abs(answer.radius / radius - 1)
    return rows.tobytes()


def _look_at_set(answer: Answer, rotation: Tensor) -> tuple[bool, int]:
    """Whether the set of candidates holds the pose in the dataset, and its size; none from a network without any."""
    if not answer.verified:
        return False, 0
    held = answer.likely_candidates()
    poses, is_open = torch.stack([one.pose for one in held]), torch.tensor([one.any_azimuth for one in held])
    return bool(right_poses(poses, rotation, is_open).any()), len(held)


def _group(rows: NDArray[np.void], is_named: bool) -> dict[str, ViewScores]:
    """Scores of whole shapes, of all views, and of views by their visible share; groups without a row are left out."""
    views = rows[rows["is_view"]]
    groups = {"whole": rows[~rows["is_view"]], "views": views}
    for low, high in pairwise(SHARES):
        name = f"views, {100 * low:.0f}–{100 * high:.0f}% visible"
        groups[name] = views[(low < views["visible"]) & (views["visible"] <= high)]
    return {name: _score(some, is_named) for name, some in groups.items() if len(some)}


def _by_kind(rows: NDArray[np.void], kinds: Sequence[str], is_named: bool) -> dict[str, ViewScores]:
    there = sorted((kinds[number], number) for number in np.unique(rows["kind"]))
    return {kind: _score(rows[rows["kind"] == number], is_named) for kind, number in there}


def _score(rows: NDArray[np.void], is_named: bool) -> ViewScores:
    """Scores of one row or more; without accuracy where the model has none of the classes."""
    right, with_sets = rows["correct"] if is_named else rows["up"] <= 10, rows[rows["set_size"] > 0]
    return ViewScores(
        views=len(rows),
        accuracy=float(rows["correct"].mean()) if is_named else None,
        accuracy_known_up=float(rows["correct_known_up"].mean()) if is_named else None,
        confidence=float(rows["confidence"].mean()),
        ece=calibration_error(rows["confidence"], right),
        first_three=float(rows["first_three"].mean()),
        set_holds_pose=float(with_sets["set_holds_pose"].mean()) if len(with_sets) else None,
        set_size=float(with_sets["set_size"].mean()) if len(with_sets) else None,
        up10=float((rows["up"] <= 10).mean()),
        up_degrees=float(np.median(rows["up"])),
        pose15=float((rows["pose"] <= 15).mean()),
        pose_degrees=float(np.median(rows["pose"])),
        pose15_known_up=float((rows["pose_known_up"] <= 15).mean()),
        centre=float(np.median(rows["centre"])),
        size=float(np.median(rows["size"])),
    )
