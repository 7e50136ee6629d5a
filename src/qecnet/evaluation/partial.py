"""Accuracy and orientation error on views of one side of a shape, next to those on whole shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from rich.console import Console
from rich.progress import track

from qecnet.algebra import random_quaternion, rotate
from qecnet.datasets import NO_SYMMETRY, Item, derive_seed, sample_view, symmetry_of
from qecnet.evaluation.forms import name_form
from qecnet.evaluation.measurement import Measurement
from qecnet.evaluation.results import MeasuredModel, ViewScores, ViewsResult
from qecnet.evaluation.symmetric_errors import IDENTITY, symmetric_distance
from qecnet.geometry import sample_points
from qecnet.nn import count_parameters

SHARES = (0.0, 0.3, 0.4, 0.5, 1.0)
"""Bounds of the groups of views by the share of the surface that is visible."""

_UP = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)


@dataclass(frozen=True)
class _Row:
    """One prediction: of the whole shape (`visible` is None) or of a view."""

    kind: str
    visible: float | None
    correct: bool | None
    correct_known_up: bool | None
    confidence: float
    up: float
    pose: float
    pose_known_up: float
    centre: float
    size: float


def measure_views(measurement: Measurement) -> ViewsResult:
    """Predict each test shape twice, whole and as one camera sees it, each in a random pose of its own.

    A dataset that shares no class with the model is measured by orientation alone, and grouped by form (`name_form`).

    Args:
        measurement: what is measured, and how; the protocol is "strict".

    Returns:
        The result, for `write_result`.

    Raises:
        ValueError: if the network predicts no pose.
    """
    model, dataset = measurement.model, measurement.dataset
    if not model.has_poses:
        raise ValueError(f"{model.name}: its network predicts no pose; measure its classification instead")
    items = dataset.items("test")
    common = {*model.classes} & {*dataset.classes}
    numbers = range(len(items)) if measurement.shapes is None else measurement.shapes
    numbers = [n for n in numbers if not common or dataset.classes[items[n].label] in common]
    rows: list[_Row] = []
    console = Console(stderr=True)
    for number in track(numbers, "views: shapes", console=console, disable=not measurement.progress, transient=True):
        rows += _measure_shape(measurement, number, items[number], bool(common))
    return ViewsResult(
        protocol="strict",
        dataset=dataset.name,
        split="test",
        classes=tuple(name for name in dataset.classes if name in common) or dataset.classes,
        missing=tuple(sorted({*model.classes, *dataset.classes} - common)) if common else (),
        shapes=len(numbers),
        model=MeasuredModel(count_parameters(model.network), dataset=model.settings.get("dataset")),
        seed=measurement.seed,
        groups=_group(rows),
        whole_by_kind=_by_kind([row for row in rows if row.visible is None]),
        views_by_kind=_by_kind([row for row in rows if row.visible is not None]),
    )


def _measure_shape(measurement: Measurement, number: int, item: Item, is_class: bool) -> list[_Row]:
    """Rows of the whole shape and of a view; none of a shape that cannot be read."""
    generator = torch.Generator().manual_seed(derive_seed(measurement.seed, number))
    shape = item.load()
    kind = measurement.dataset.classes[item.label] if is_class else name_form(shape)
    view = sample_view(shape, generator)
    whole = sample_points(shape, measurement.model.config.points, generator)
    middle = whole.points.double().mean(0)
    radius = float((whole.points.double() - middle).norm(dim=-1).amax())
    rows = []
    for cloud, visible in ((whole, None), (view.cloud, view.visible)):
        q = random_quaternion((), generator, dtype=torch.float64)
        rotated, up = replace(cloud, normals=None).rotated(q), rotate(q, _UP)
        try:
            answer, known_up = measurement.model.predict(rotated), measurement.model.predict(rotated, up=up)
        except ValueError:  # flat, or too few points in view
            continue
        group = symmetry_of(kind) if is_class else NO_SYMMETRY
        full, known = (
            float(np.rad2deg(symmetric_distance(pose, IDENTITY, q, group))) for pose in (answer.pose, known_up.pose)
        )
        rows.append(
            _Row(
                kind,
                visible,
                answer.label == kind if is_class else None,
                known_up.label == kind if is_class else None,
                answer.confidence if is_class else answer.up_confidence,
                float((rotate(answer.pose, _UP) @ up).clamp(-1, 1).arccos().rad2deg()),
                full,
                known,
                float((answer.centre - rotate(q, middle)).norm()) / radius,
                abs(answer.radius / radius - 1),
            )
        )
    return rows


def _group(rows: Sequence[_Row]) -> dict[str, ViewScores]:
    """Scores of whole shapes, of all views, and of views by their visible share; groups without a row are left out."""
    views = [(row, row.visible) for row in rows if row.visible is not None]
    groups = {"whole": [row for row in rows if row.visible is None], "views": [row for row, _ in views]}
    for low, high in pairwise(SHARES):
        name = f"views, {100 * low:.0f}–{100 * high:.0f}% visible"
        groups[name] = [row for row, share in views if low < share <= high]
    return {name: _score(some) for name, some in groups.items() if some}


def _by_kind(rows: Sequence[_Row]) -> dict[str, ViewScores]:
    return {kind: _score([row for row in rows if row.kind == kind]) for kind in sorted({row.kind for row in rows})}


def _score(rows: Sequence[_Row]) -> ViewScores:
    up, pose, known, centre, size = (
        np.array([getattr(row, name) for row in rows]) for name in ("up", "pose", "pose_known_up", "centre", "size")
    )
    named = [row.correct for row in rows if row.correct is not None]
    with_up = [row.correct_known_up for row in rows if row.correct_known_up is not None]
    return ViewScores(
        views=len(rows),
        accuracy=float(np.mean(named)) if named else None,
        accuracy_known_up=float(np.mean(with_up)) if with_up else None,
        confidence=float(np.mean([row.confidence for row in rows])),
        up10=float((up <= 10).mean()),
        up_degrees=float(np.median(up)),
        pose15=float((pose <= 15).mean()),
        pose_degrees=float(np.median(pose)),
        pose15_known_up=float((known <= 15).mean()),
        centre=float(np.median(centre)),
        size=float(np.median(size)),
    )
