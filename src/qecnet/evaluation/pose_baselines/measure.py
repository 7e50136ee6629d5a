"""How well the pose baselines do, on two samples of one shape and on two different shapes of a class.

Strict protocol: each view is resampled on its own and turned uniformly over SO(3). Shapes of a class stand alike in
ModelNet10, so what turns one view into another is R₂ ∘ R₁⁻¹, for two different chairs too.

A mesh is sampled anew for each view. Of a stored cloud each view keeps 80%, so two views of one shape have four in five
of their points in common. Registration finds these very points, even where a shape's symmetry leaves nothing else to
tell: its errors on one shape are then lower than on two scans, which share none.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor

from qecnet.algebra import random_quaternion, rotate
from qecnet.datasets import Dataset, Item, derive_seed
from qecnet.datasets.drawn import drawn
from qecnet.evaluation.metrics import angles, relative, rotation_groups
from qecnet.evaluation.pose_baselines._shared import NoPoseError, package
from qecnet.evaluation.pose_baselines.methods import METHODS
from qecnet.evaluation.symmetry import IDENTITY, symmetric_angles
from qecnet.evaluation.unfinished import unfinished
from qecnet.fingerprint import code_hash
from qecnet.geometry import PointCloud, PrepareConfig
from qecnet.workers import in_order

Table = Literal["same_instance", "category_level"]
Quaternion = tuple[float, ...]

TABLES: tuple[Table, ...] = ("same_instance", "category_level")

_KEEP = 0.8  # of a stored cloud; a mesh is sampled anew
_PAIRS, _SAMPLE, _ROTATION, _METHOD = range(4)  # what is drawn: one stream of random numbers each


@dataclass(frozen=True)
class Row:
    """One pair, aligned by one method.

    Attributes:
        label: an index into the dataset's classes.
        shapes: names of the source and of the target.
        first, second: WXYZ, what turned each from upright; the truth is `second ∘ first⁻¹`.
        predicted: WXYZ, or None where the method has no answer for these clouds.
        seconds: of processor time that the answer took on one thread, which other work on the machine does not change.
    """

    table: Table
    method: str
    label: int
    shapes: tuple[str, str]
    first: Quaternion
    second: Quaternion
    predicted: Quaternion | None
    seconds: float


@dataclass(frozen=True)
class _View:
    """A shape of the split by its number, and which of its views."""

    number: int
    item: Item
    view: int


@dataclass(frozen=True)
class _Pair:
    table: Table
    source: _View
    target: _View


def measure_pose_baselines(
    dataset: Dataset,
    split: str = "test",
    methods: Sequence[str] = tuple(METHODS),
    pairs_per_class: int = 20,
    seed: int = 0,
    workers: int | None = None,
    progress: bool = True,
    part: Path | None = None,
) -> dict[str, Any]:
    """Errors of each method on the same pairs, as `rotation_groups` has them, and the mean processor seconds a pair.

    `keep` is the share of a stored cloud that a view has. Pairs that a method has no answer for count as if it had said
    the identity; `no_answer` says how many.
    """
    rows = pose_rows(dataset, split, methods, pairs_per_class, seed, workers, progress, part)
    return {
        "what": "pose-baselines",
        "protocol": "strict",
        "dataset": dataset.name,
        "split": split,
        "classes": list(dataset.classes),
        "pairs_per_class": pairs_per_class,
        "keep": _KEEP,
        "seed": seed,
        **{
            table: {
                method: scores([r for r in rows if (r.table, r.method) == (table, method)], dataset.classes)
                for method in methods
            }
            for table in TABLES
        },
    }


def pose_rows(
    dataset: Dataset,
    split: str = "test",
    methods: Sequence[str] = tuple(METHODS),
    pairs_per_class: int = 20,
    seed: int = 0,
    workers: int | None = None,
    progress: bool = True,
    part: Path | None = None,
) -> list[Row]:
    """A row for each pair and method, in the order of tables, classes, pairs and `methods`.

    A class takes each of its shapes once before it takes one again; a class of one shape has no pairs of different
    ones. All but the seconds follows from `seed`, whatever the number of workers (every core by default).

    Args:
        part: a file that keeps rows as they come; a run that was stopped goes on from what is there.
    """
    if unknown := [name for name in methods if name not in METHODS]:
        raise ValueError(f"{unknown[0]} is no pose baseline; those are {', '.join(METHODS)}")
    workers = os.cpu_count() or 1 if workers is None else workers
    for name, number in (("pairs_per_class", pairs_per_class), ("workers", workers)):
        if number < 1:
            raise ValueError(f"{name} is {number}; measuring needs one or more")
    _load(methods)
    pairs = [pair for table in TABLES for pair in _pairs(dataset, split, table, pairs_per_class, seed)]
    found: list[list[Row]] = []
    with ExitStack() as stack:
        file = None
        if part is not None:
            key = _key(dataset, split, methods, pairs_per_class, seed)
            file, start = stack.enter_context(unfinished(part, key))
            found = _kept(file, start)
        todo = pairs[len(found) :]
        jobs = ((pair, tuple(methods), seed) for pair in todo)
        results = in_order(_rows, jobs, workers, _load, (tuple(methods),))
        told = "pose baselines: pairs" + (f" after {len(found)}" if found else "")
        console = Console(stderr=True)
        for rows in track(results, told, len(todo), console=console, disable=not progress, transient=True):
            found.append(rows)
            if file is not None:
                file.write(json.dumps([asdict(row) for row in rows]).encode() + b"\n")
                file.flush()
    return [row for rows in found for row in rows]


def _key(dataset: Dataset, split: str, methods: Sequence[str], pairs_per_class: int, seed: int) -> str:
    """Of everything that changes a row."""
    code = [
        *(code_hash(f"qecnet.{room}", "*.py") for room in ("algebra", "geometry", "evaluation.pose_baselines")),
        code_hash("qecnet.datasets", "drawn.py"),
    ]
    about = [dataset.fingerprint(split), list(methods), pairs_per_class, seed, code]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()


def _kept(file: BinaryIO, start: int) -> list[list[Row]]:
    """The rows of each pair, from a line each; what was being written when the run was stopped is cut off."""
    file.seek(start)
    whole, newline, _ = file.read().rpartition(b"\n")
    file.truncate(start + len(whole) + len(newline))
    return [[_row(values) for values in json.loads(line)] for line in whole.splitlines()]


def _row(values: dict[str, Any]) -> Row:
    """From JSON, which has lists for tuples."""
    given: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in values.items()}
    return Row(**given)


def scores(rows: Sequence[Row], classes: Sequence[str]) -> dict[str, Any]:
    """What is said of one method in one table: `rotation_groups`, the mean seconds, and how often it had no answer."""
    labels = np.array([row.label for row in rows], dtype=np.int64)
    predicted, first, second = (
        np.array(quaternions, dtype=np.float64).reshape(-1, 4)
        for quaternions in (
            [IDENTITY if row.predicted is None else row.predicted for row in rows],
            [row.first for row in rows],
            [row.second for row in rows],
        )
    )
    plain = angles(predicted, relative(first, second))
    symmetric = symmetric_angles(predicted, first, second, labels, classes)
    return {
        **rotation_groups(plain, symmetric, labels, classes),
        "seconds": float(np.mean([row.seconds for row in rows])) if rows else None,
        "no_answer": sum(row.predicted is None for row in rows),
    }


def _pairs(dataset: Dataset, split: str, table: Table, count: int, seed: int) -> Iterator[_Pair]:
    """`count` pairs of each class, or as many as there are; every round of all its shapes looks at new views."""
    items = dataset.items(split)
    for label in range(len(dataset.classes)):
        of_class = np.flatnonzero([item.label == label for item in items]).tolist()
        size = len(of_class)
        generator = torch.Generator().manual_seed(derive_seed(seed, _PAIRS, label))
        shuffled = [of_class[i] for i in torch.randperm(size, generator=generator).tolist()]
        same = table == "same_instance"
        there = count * size if same else size * (size - 1)
        for k in range(min(count, there)):
            turn = k // size
            a, b = shuffled[k % size], shuffled[(k if same else k + 1 + turn) % size]
            yield _Pair(table, _View(a, items[a], 2 * turn), _View(b, items[b], 2 * turn + 1))


def _load(methods: Sequence[str]) -> None:
    """Imports what the methods need, so that no pair's time has it, and what is missing is said at once."""
    for name in methods:
        if needed := METHODS[name].package:
            package(needed)


def _rows(pair: _Pair, methods: tuple[str, ...], seed: int) -> list[Row]:
    """One pair, by each method."""
    (source, first), (target, second) = (_seen(view, seed) for view in (pair.source, pair.target))
    drawn = derive_seed(seed, _METHOD, pair.source.number, pair.target.number, pair.source.view)
    rows = []
    for name in methods:
        began = time.process_time()
        try:
            predicted = tuple(METHODS[name].align(source, target, drawn).tolist())
        except NoPoseError:
            predicted = None
        seconds = time.process_time() - began
        shapes = pair.source.item.name, pair.target.item.name
        turned = tuple(first.tolist()), tuple(second.tolist())
        rows.append(Row(pair.table, name, pair.source.item.label, shapes, *turned, predicted, seconds))
    return rows


def _seen(view: _View, seed: int) -> tuple[PointCloud, Tensor]:
    """A view of a shape, with points of its own, and what turned it: (4,) WXYZ, float64."""
    generator = torch.Generator().manual_seed(derive_seed(seed, _SAMPLE, view.number, view.view))
    cloud = replace(drawn(view.item.load(), PrepareConfig(), _KEEP, generator), normals=None)
    q = random_quaternion((), derive_seed(seed, _ROTATION, view.number, view.view), dtype=torch.float64)
    return replace(cloud, points=rotate(q, cloud.points.double()).to(cloud.points.dtype)), q
