"""What the demo measures: predictions for shapes in random poses, and their errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from qecnet.algebra import conjugate, multiply, random_quaternion, rotate
from qecnet.datasets import FURNITURE_CLASSES, make_shape, symmetry_of
from qecnet.evaluation import IDENTITY, NO_SYM, symmetric_distance
from qecnet.formats import read
from qecnet.geometry import Mesh, PointCloud, fit_normals, random_points
from qecnet.models import Answer, Model

POINTS = 10_000
"""Number of points of a scan."""
LIMIT = 15.0
"""Degrees: a pose with a larger error is marked as wrong."""
_UP = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Scan:
    """Points sampled from a shape and rotated.

    Attributes:
        kind: its true class, or None if that is unknown.
        cloud: the input of the model.
        rotation: (4,), WXYZ, from the shape to the scan.
    """

    name: str
    kind: str | None
    cloud: PointCloud
    rotation: Tensor

    def surface(self, count: int) -> tuple[Tensor, Tensor]:
        """At most `count` of its points, in a ball of radius 1, with unoriented normals. (M, 3) each"""
        whole = self.cloud.normalized()
        normals = fit_normals(whole.points, neighbours=9)[0] if whole.normals is None else whole.normals
        kept = random_points(whole.points, min(count, len(whole)), torch.Generator().manual_seed(0))
        return whole.points[kept], normals[kept].to(whole.points)


@dataclass(frozen=True, eq=False)
class Seen:
    """A scan and its prediction.

    Attributes:
        error: degrees between the predicted pose and the one predicted for another, unrotated scan of the shape,
            rotated in the same way; up to the symmetry of the class.
        tilt: degrees between the true up direction and z after the scan is rotated by the predicted pose; None if the
            true up direction is unknown.
    """

    scan: Scan
    answer: Answer
    error: float
    tilt: float | None

    @property
    def label_is_wrong(self) -> bool:
        return self.scan.kind is not None and self.answer.label != self.scan.kind

    @property
    def pose_is_wrong(self) -> bool:
        return self.error > LIMIT or (self.tilt is not None and self.tilt > LIMIT)


@dataclass(frozen=True, eq=False)
class Pair:
    """Two scans and the predicted rotation between them.

    Attributes:
        differ: whether these are two shapes, not two scans of one.
        rotation: (4,), WXYZ, aligns the source with the target.
        error: degrees, up to the symmetry of the class; None if the true rotation is unknown.
    """

    what: str
    source: Scan
    target: Scan
    differ: bool
    rotation: Tensor
    error: float | None

    @property
    def is_wrong(self) -> bool:
        return self.error is not None and self.error > LIMIT


def trial(model: Model, file: Path | None, seed: int) -> tuple[list[Seen], list[Pair]]:
    """Predict a procedural shape of each class, and the user's file if there is one."""
    generator = torch.Generator().manual_seed(seed)
    mine = None if file is None else read(file)
    shapes = {kind: make_shape(kind, seed) for kind in FURNITURE_CLASSES}
    seen = [_look(model, words(kind), kind, shape, generator) for kind, shape in shapes.items()]
    pairs = [pair for kind in NO_SYM for pair in _pairs(model, kind, shapes[kind], seed, generator)]
    if file is not None and mine is not None:
        seen.insert(0, _look(model, file.name, None, mine, generator))
        pairs[:0] = _pairs_of_file(model, seen[0], mine, seed, generator)
    return seen, pairs


def _look(model: Model, name: str, kind: str | None, shape: Mesh | PointCloud, generator: torch.Generator) -> Seen:
    still, scan = _scan(name, kind, shape, generator, rotated=False), _scan(name, kind, shape, generator)
    before, after = model.predict([still.cloud, scan.cloud])
    expected = multiply(scan.rotation, before.pose)
    error = _degrees(symmetric_distance(after.pose, IDENTITY, expected, symmetry_of(kind or after.label)))
    up = rotate(conjugate(after.pose), rotate(scan.rotation, _UP))
    tilt = None if kind is None else float(torch.rad2deg(torch.acos((up @ _UP).clamp(-1, 1))))
    return Seen(scan, after, error, tilt)


def _pairs(model: Model, kind: str, shape: Mesh, seed: int, generator: torch.Generator) -> Iterator[Pair]:
    """Align two scans of one shape, and two shapes of a class, which all face the same way before rotation."""
    other = make_shape(kind, seed + 1)
    for what, second in ((f"one {words(kind)}, scanned twice", shape), (f"two different {words(kind)}s", other)):
        source, target = (_scan(kind, kind, one, generator) for one in (second, shape))
        yield _align(model, what, source, target, differ=second is other)


def _pairs_of_file(
    model: Model, seen: Seen, shape: Mesh | PointCloud, seed: int, generator: torch.Generator
) -> Iterator[Pair]:
    name, label = seen.scan.name, seen.answer.label
    again = _scan(name, None, shape, generator)
    yield _align(model, f"{name}, scanned twice", again, seen.scan, differ=False)
    if label in FURNITURE_CLASSES:
        ours = _scan(label, label, make_shape(label, seed), generator)
        yield _align(model, f"{name} and our {words(label)}", ours, seen.scan, differ=True, known=False)


def _align(model: Model, what: str, source: Scan, target: Scan, *, differ: bool, known: bool = True) -> Pair:
    found = model.align(source.cloud, target.cloud)
    group = symmetry_of(target.kind or found.target.label)
    error = _degrees(symmetric_distance(found.rotation, source.rotation, target.rotation, group)) if known else None
    return Pair(what, source, target, differ, found.rotation, error)


def _scan(
    name: str, kind: str | None, shape: Mesh | PointCloud, generator: torch.Generator, rotated: bool = True
) -> Scan:
    if isinstance(shape, Mesh):
        cloud = shape.sample(POINTS, generator)
    else:
        kept = random_points(shape.points, min(POINTS, max(1, round(0.8 * len(shape)))), generator)
        cloud = PointCloud(shape.points[kept])
    rotation = random_quaternion((), generator, dtype=torch.float64) if rotated else torch.from_numpy(IDENTITY)
    normals = None if cloud.normals is None else rotate(rotation, cloud.normals.double())
    return Scan(
        name, kind, replace(cloud, points=rotate(rotation, cloud.points.double()), normals=normals, name=name), rotation
    )


def _degrees(angle: np.ndarray) -> float:
    return float(np.degrees(angle))


def words(kind: str) -> str:
    """The name of a class with spaces."""
    return kind.replace("_", " ")
