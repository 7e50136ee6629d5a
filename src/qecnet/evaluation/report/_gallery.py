"""Pictures of shapes: aligned pairs, the worst failures, and where poses point."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from qecnet.algebra import conjugate, multiply, rotate
from qecnet.datasets import Dataset
from qecnet.evaluation.metrics import IDENTITY, bootstrap_interval, check_rotations, relative_rotation
from qecnet.evaluation.predict import Predictions
from qecnet.evaluation.report._table import ReportTable, data_table
from qecnet.evaluation.report._tables import sort_classes
from qecnet.evaluation.rotation import pair_angles, siamese_pairs

WORST = 20
_POINTS = 1400
_STEPS = 32_000  # integer steps per radius: points are stored as 16 bits
_MOST_DIRECTIONS = 2000  # on all spheres together, to keep the page light

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class ViewPairs:
    """P pairs of views of one class: rows (P,) and (P,) of the predictions, and errors (P,) in radians."""

    first: Rows
    second: Rows
    plain: NDArray[Any]
    symmetric: NDArray[Any]

    def select(self, chosen: NDArray[Any]) -> ViewPairs:
        """Choose pairs by a mask or by number."""
        return ViewPairs(self.first[chosen], self.second[chosen], self.plain[chosen], self.symmetric[chosen])


def pair_same_shape(found: Predictions) -> ViewPairs:
    """Pair each two views of a shape with different points, as in siamese mode."""
    rows = siamese_pairs(found.shape, found.resampling)
    return ViewPairs(*rows, *pair_angles(found, *rows))


def pair_same_class(found: Predictions) -> ViewPairs:
    """Pair the first correctly classified view of each shape with that of the next shape of its class."""
    _, first_row = np.unique(np.where(found.correct, found.shape, -1), return_index=True)
    first_row = first_row[found.correct[first_row]]
    of_class = [first_row[found.label[first_row] == label] for label in range(len(found.classes))]
    rows = np.concatenate([one[:-1] for one in of_class]), np.concatenate([one[1:] for one in of_class])
    return ViewPairs(*rows, *pair_angles(found, *rows))


def choose_typical(found: Predictions, pairs: ViewPairs) -> ViewPairs:
    """Choose the pair of median symmetric error of each class that has pairs."""
    order = np.argsort(pairs.symmetric, kind="stable")
    label = found.label[pairs.first[order]]
    of_class = [order[label == one] for one in np.unique(label)]
    return pairs.select(np.array([rows[(len(rows) - 1) // 2] for rows in of_class], dtype=np.int64))


def choose_worst_poses(found: Predictions, pairs: ViewPairs, count: int) -> ViewPairs:
    """Choose the largest symmetric errors of correctly classified pairs, one per shape, the largest first."""
    named = pairs.select(found.correct[pairs.first] & found.correct[pairs.second])
    return named.select(_one_per_shape(np.argsort(-named.symmetric, kind="stable"), found.shape[named.first], count))


def choose_worst_classes(found: Predictions, count: int) -> Rows:
    """Choose rows classified wrongly by the widest margin of activation, one per shape, the widest first."""
    each = np.arange(len(found.label))
    margin = found.activations[each, found.predicted] - found.activations[each, found.label]
    wrong = np.flatnonzero(~found.correct)
    return _one_per_shape(wrong[np.argsort(-margin[wrong], kind="stable")], found.shape, count)


def _one_per_shape(order: Rows, shape: Rows, count: int) -> Rows:
    _, place = np.unique(shape[order], return_index=True)
    return order[np.sort(place)[:count]]


def error_interval(found: Predictions, classes: Sequence[str], only_correct: bool) -> tuple[float, float] | None:
    """Compute the 95% interval of the mean siamese error, angle/π, of these classes; None if they have no pairs."""
    pairs = pair_same_shape(found)
    kept = np.isin(found.label[pairs.first], [i for i, name in enumerate(found.classes) if name in classes])
    if only_correct:
        kept &= found.correct[pairs.first] & found.correct[pairs.second]
    return bootstrap_interval(pairs.plain[kept] / np.pi, found.shape[pairs.first[kept]], 0) if kept.any() else None


def failure_tables(named: Predictions, posed: Predictions | None) -> list[ReportTable]:
    """List the worst failures as CSV tables."""
    keys = ["shape", "truth", "predicted", "activation", "activation_of_truth"]
    rows = [[named.name[row], *about] for row, *about in _list_confusions(named)]
    tables = [data_table("failures-classes.csv", keys, rows)]
    if posed is not None:
        pairs = choose_worst_poses(posed, pair_same_shape(posed), WORST)
        angles = zip(pairs.first, np.degrees(pairs.plain), np.degrees(pairs.symmetric), strict=True)
        cells = [[posed.name[row], posed.classes[posed.label[row]], float(a), float(b)] for row, a, b in angles]
        tables.append(data_table("failures-poses.csv", ["shape", "class", "degrees", "symmetric_degrees"], cells))
    return tables


def _list_confusions(found: Predictions) -> Iterator[tuple[int, str, str, float, float]]:
    """Rows of the worst classes, with the true class, the predicted one, its activation and that of the true one."""
    for row in choose_worst_classes(found, WORST):
        truth, predicted = found.label[row], found.predicted[row]
        activations = (float(found.activations[row, label]) for label in (predicted, truth))
        yield row, found.classes[truth], found.classes[predicted], *activations


class CloudPictures:
    """Cards with pictures that the page's script draws; the points of each shape are kept once.

    Attributes:
        encoded: the points of all shapes so far, base64 of 16-bit integers.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.items = dataset.items("test")
        self.places: dict[int, int] = {}
        self.encoded: list[str] = []

    def show_confusions(self, found: Predictions) -> list[dict[str, Any]]:
        """Show the worst classifications, upright."""
        return [
            {
                "pictures": [self._picture("classified wrongly", found, [(row, IDENTITY, "blue")])],
                "title": predicted,
                "text": f"not {truth}",
                "detail": f"activation {activation:.2f} against {of_truth:.2f}, {found.name[row]}",
            }
            for row, truth, predicted, activation, of_truth in _list_confusions(found)
        ]

    def show_pairs(self, found: Predictions, chosen: ViewPairs, before: bool) -> list[dict[str, Any]]:
        """Show pairs aligned by their predicted poses, the first view upright, and perhaps before that."""
        first, second = (torch.from_numpy(found.rotation[rows]) for rows in (chosen.first, chosen.second))
        onto_first = relative_rotation(found.poses[chosen.second, 0], found.poses[chosen.first, 0])
        upright = multiply(conjugate(first), multiply(torch.from_numpy(onto_first), second)).numpy()
        cards = []
        columns = (chosen.first, chosen.second, upright, chosen.plain, chosen.symmetric)
        for a, b, rotation, plain, symmetric in zip(*columns, strict=True):
            aligned = self._picture("aligned", found, [(a, IDENTITY, "blue"), (b, rotation, "vermillion")])
            given = [(a, found.rotation[a], "blue"), (b, found.rotation[b], "vermillion")]
            cards.append(
                {
                    "pictures": [self._picture("before", found, given), aligned] if before else [aligned],
                    "title": found.classes[found.label[a]],
                    "text": f"{np.degrees(plain):.0f}°, symmetric {np.degrees(symmetric):.0f}°",
                    "detail": _names(found, (a, b)),
                }
            )
        return cards

    def _picture(self, what: str, found: Predictions, parts: Sequence[tuple[int, Any, str]]) -> dict[str, str]:
        rows = [row for row, *_ in parts]
        drawn = [[self._place(found, row), *np.round(q, 5).tolist(), colour] for row, q, colour in parts]
        return {"label": f"{_names(found, rows)}, {what}", "parts": json.dumps(drawn)}

    def _place(self, found: Predictions, row: int) -> int:
        """Store a shape's points, once. → their place in the page's list"""
        shape, name = int(found.shape[row]), str(found.name[row])
        if shape not in self.places:
            if shape >= len(self.items) or self.items[shape].name != name:
                raise ValueError(
                    f"--data: its test split is not the one that was measured ({name} is not in its place); give the "
                    "same dataset"
                )
            cloud = self.items[shape].load_cloud(_POINTS).normalized()
            kept = np.random.default_rng(0).permutation(len(cloud))[:_POINTS]
            self.places[shape] = len(self.encoded)
            points = np.round(_STEPS * cloud.points.numpy()[kept]).astype("<i2")
            self.encoded.append(base64.b64encode(points.tobytes()).decode())
        return self.places[shape]


def _names(found: Predictions, rows: Sequence[int]) -> str:
    return " and ".join(dict.fromkeys(str(found.name[row]) for row in rows))


_TURN, _TILT = np.radians(35), np.radians(25)  # also in the circles of macros.jinja
_RIGHT = np.array([-np.sin(_TURN), np.cos(_TURN), 0])
_EYE = np.array([np.cos(_TURN) * np.cos(_TILT), np.sin(_TURN) * np.cos(_TILT), np.sin(_TILT)])
_CAMERA = np.stack((_RIGHT, -np.cross(_EYE, _RIGHT), _EYE), 1)
"""From a direction to its x and y in the picture, and how near it is."""


def pose_directions(found: Predictions) -> NDArray[Any]:
    """Apply `R⁻¹ ∘ pose` to e_x, for the rotation R of each view and the pose of its predicted class. → (V, 3)"""
    rotations, poses = check_rotations("rotation", found.rotation), check_rotations("poses", found.poses[:, 0])
    x = torch.tensor([1.0, 0, 0], dtype=torch.float64)
    return np.asarray(rotate(conjugate(rotations), rotate(poses, x)).numpy())


def pose_spheres(found: Predictions) -> tuple[list[dict[str, Any]], ReportTable]:
    """Project the directions of each class onto a sphere seen from afar: x, y, near side, correct; and the CSV."""
    directions = pose_directions(found)
    spheres, rows = [], []
    most = max(20, _MOST_DIRECTIONS // len(found.classes))
    for name in sort_classes(found.classes):
        of_class = np.flatnonzero(found.label == found.classes.index(name))
        shown = of_class[np.unique(np.linspace(0, len(of_class) - 1, min(most, len(of_class))).astype(int))]
        at = (directions[shown] @ _CAMERA).tolist()
        places = [(round(x, 3), round(y, 3), z >= 0, found.correct[i]) for i, (x, y, z) in zip(shown, at, strict=True)]
        rows += [[name, found.name[i], int(found.correct[i]), *map(float, directions[i])] for i in shown]
        spheres += [{"name": name, "points": places}] if places else []
    return spheres, data_table("spheres.csv", ["class", "shape", "correct", "x", "y", "z"], rows)
