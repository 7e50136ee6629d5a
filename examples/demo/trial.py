"""What the demo tries: shapes turned at random, what a model says of them, and how far that is from the truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from qecnet.algebra import conjugate, multiply, random_quaternion, rotate
from qecnet.datasets import FURNITURE_CLASSES, make_shape, symmetry_of
from qecnet.evaluation.metrics import NO_SYM
from qecnet.evaluation.symmetry import IDENTITY, symmetric_distance
from qecnet.formats import read
from qecnet.geometry import Mesh, PointCloud, fit_normals, random_points
from qecnet.models import Answer, Model

POINTS = 10_000
"""Of a scan."""
LIMIT = 15.0
"""Degrees: a pose that is further off is marked as wrong."""
_UP = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Scan:
    """New points of a shape, turned.

    Attributes:
        kind: what it is, where that is known.
        cloud: what the model is given.
        turn: (4,), WXYZ, turned the shape into this.
    """

    name: str
    kind: str | None
    cloud: PointCloud
    turn: Tensor

    def surface(self, count: int) -> tuple[Tensor, Tensor]:
        """At most `count` of its points, in a ball of radius 1, with normals whose sides mean nothing. (M, 3) each"""
        whole = self.cloud.normalized()
        normals = fit_normals(whole.points, neighbours=9)[0] if whole.normals is None else whole.normals
        kept = random_points(whole.points, min(count, len(whole)), torch.Generator().manual_seed(0))
        return whole.points[kept], normals[kept].to(whole.points)


@dataclass(frozen=True, eq=False)
class Seen:
    """A scan and what the model said of it.

    Attributes:
        error: degrees between the pose that was found and the pose found for another, unturned scan of the shape,
            turned by the same rotation; up to the class's declared symmetry.
        lean: degrees between the shape's own upward direction and z once it is brought upright; None where no one
            knows where up is.
    """

    scan: Scan
    answer: Answer
    error: float
    lean: float | None

    @property
    def name_is_wrong(self) -> bool:
        return self.scan.kind is not None and self.answer.label != self.scan.kind

    @property
    def pose_is_wrong(self) -> bool:
        return self.error > LIMIT or (self.lean is not None and self.lean > LIMIT)


@dataclass(frozen=True, eq=False)
class Pair:
    """Two scans and the rotation that was found between them.

    Attributes:
        differ: two shapes, and not one that was scanned twice.
        rotation: (4,), WXYZ, brings the source onto the target.
        error: degrees, up to the class's declared symmetry; None where no one knows the answer.
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
    """Of a user's file, if there is one, and of a shape of each kind that ships."""
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
    still, scan = _scan(name, kind, shape, generator, turned=False), _scan(name, kind, shape, generator)
    before, after = model.predict([still.cloud, scan.cloud])
    expected = multiply(scan.turn, before.pose)
    error = _degrees(symmetric_distance(after.pose, IDENTITY, expected, symmetry_of(kind or after.label)))
    up = rotate(conjugate(after.pose), rotate(scan.turn, _UP))
    lean = None if kind is None else float(torch.rad2deg(torch.acos((up @ _UP).clamp(-1, 1))))
    return Seen(scan, after, error, lean)


def _pairs(model: Model, kind: str, shape: Mesh, seed: int, generator: torch.Generator) -> Iterator[Pair]:
    """Both of one shape, and of two shapes of a kind; all of them face the same way before they are turned."""
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
    error = _degrees(symmetric_distance(found.rotation, source.turn, target.turn, group)) if known else None
    return Pair(what, source, target, differ, found.rotation, error)


def _scan(
    name: str, kind: str | None, shape: Mesh | PointCloud, generator: torch.Generator, turned: bool = True
) -> Scan:
    if isinstance(shape, Mesh):
        cloud = shape.sample(POINTS, generator)
    else:
        kept = random_points(shape.points, min(POINTS, max(1, round(0.8 * len(shape)))), generator)
        cloud = PointCloud(shape.points[kept])
    turn = random_quaternion((), generator, dtype=torch.float64) if turned else torch.from_numpy(IDENTITY)
    normals = None if cloud.normals is None else rotate(turn, cloud.normals.double())
    return Scan(
        name, kind, replace(cloud, points=rotate(turn, cloud.points.double()), normals=normals, name=name), turn
    )


def _degrees(angle: np.ndarray) -> float:
    return float(np.degrees(angle))


def words(kind: str) -> str:
    """The name of a class, for people."""
    return kind.replace("_", " ")
