"""How well the pose baselines do, on two samplings of one shape and on two different shapes of a class.

Strict protocol: each view is resampled on its own and rotated uniformly over SO(3). Shapes of a class are aligned in
ModelNet10, so the rotation from one view to another is R₂ ∘ R₁⁻¹, for two different chairs too.

A mesh is resampled for each view. Of a stored cloud each view keeps 80%, so two views of one shape share four in five
of their points. Registration finds these very points, even where a shape is symmetric: its errors on one shape are
then lower than on two scans, which share none.
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
from qecnet.evaluation import (
    IDENTITY,
    BaselineErrors,
    PoseBaselinesResult,
    group_errors,
    open_unfinished,
    relative_rotation,
    rotation_angles,
    symmetric_angles,
)
from qecnet.fingerprint import code_hash
from qecnet.geometry import PointCloud, PrepareConfig, sample_points
from qecnet.workers import in_order

from ._shared import NoPoseError, import_package
from .methods import METHODS

PairTable = Literal["same_instance", "category_level"]
Quaternion = tuple[float, ...]

TABLES: tuple[PairTable, ...] = ("same_instance", "category_level")

KEEP = 0.8  # of a stored cloud; a mesh is resampled
_PAIRS, _SAMPLE, _ROTATION, _METHOD = range(4)  # one stream of random numbers each


@dataclass(frozen=True)
class AlignedPair:
    """One pair, aligned by one method.

    Attributes:
        table: which of the two tables it belongs to.
        method: a name of `METHODS`.
        label: an index into the dataset's classes.
        shapes: names of the source and of the target.
        first: WXYZ, what rotated the source from upright.
        second: the same for the target; the true rotation is `second ∘ first⁻¹`.
        predicted: WXYZ, or None if the method has no answer for these clouds.
        seconds: processor time of the answer on one thread, which other work on the machine does not change.
    """

    table: PairTable
    method: str
    label: int
    shapes: tuple[str, str]
    first: Quaternion
    second: Quaternion
    predicted: Quaternion | None
    seconds: float


@dataclass(frozen=True)
class _ShapeView:
    """A shape of the split by its number, and which of its views."""

    number: int
    item: Item
    view: int


@dataclass(frozen=True)
class _Pair:
    table: PairTable
    source: _ShapeView
    target: _ShapeView


def measure_pose_baselines(
    dataset: Dataset,
    split: str = "test",
    methods: Sequence[str] = tuple(METHODS),
    pairs_per_class: int = 20,
    seed: int = 0,
    **options: Any,
) -> PoseBaselinesResult:
    """Measure each method on the same pairs.

    Pairs that a method has no answer for count as if it had answered the identity.

    Args:
        dataset: where the shapes come from.
        split: the part of the dataset.
        methods: names of `METHODS`.
        pairs_per_class: pairs of each class, in each of the two tables.
        seed: of pairs, resampling and rotations.
        **options: of `align_pairs`.
    """
    rows = align_pairs(dataset, split, methods, pairs_per_class, seed, **options)
    tables = {
        table: {
            method: score([r for r in rows if (r.table, r.method) == (table, method)], dataset.classes)
            for method in methods
        }
        for table in TABLES
    }
    return PoseBaselinesResult(
        protocol="strict",
        dataset=dataset.name,
        split=split,
        classes=tuple(dataset.classes),
        pairs_per_class=pairs_per_class,
        keep=KEEP,
        seed=seed,
        **tables,
    )


def align_pairs(
    dataset: Dataset,
    split: str = "test",
    methods: Sequence[str] = tuple(METHODS),
    pairs_per_class: int = 20,
    seed: int = 0,
    workers: int | None = None,
    progress: bool = True,
    part: Path | None = None,
) -> list[AlignedPair]:
    """Align each pair by each method, in the order of tables, classes, pairs and `methods`.

    A class uses each of its shapes once before it uses one again; a class of one shape has no pairs of different
    ones. All but the seconds follows from `seed`, whatever the number of workers (one per core by default).

    Args:
        dataset: where the shapes come from.
        split: the part of the dataset.
        methods: names of `METHODS`.
        pairs_per_class: pairs of each class, in each of the two tables.
        seed: of pairs, resampling and rotations.
        workers: processes.
        progress: whether to show a progress bar.
        part: a file that stores rows as they arrive; a run that was stopped resumes from it.
    """
    if unknown := [name for name in methods if name not in METHODS]:
        raise ValueError(f"{unknown[0]} is not a pose baseline; these are {', '.join(METHODS)}")
    workers = os.cpu_count() or 1 if workers is None else workers
    for name, number in (("pairs_per_class", pairs_per_class), ("workers", workers)):
        if number < 1:
            raise ValueError(f"{name} is {number}; measuring needs one or more")
    _load(methods)
    pairs = [pair for table in TABLES for pair in list_pairs(dataset, split, table, pairs_per_class, seed)]
    found: list[list[AlignedPair]] = []
    with ExitStack() as stack:
        file = None
        if part is not None:
            key = _key(dataset, split, methods, pairs_per_class, seed)
            file, start = stack.enter_context(open_unfinished(part, key))
            found = _read_kept(file, start)
        todo = pairs[len(found) :]
        jobs = ((pair, tuple(methods), seed) for pair in todo)
        results = in_order(_align_pair, jobs, workers, _load, (tuple(methods),))
        label = "pose baselines: pairs" + (f" after {len(found)}" if found else "")
        console = Console(stderr=True)
        for rows in track(results, label, len(todo), console=console, disable=not progress, transient=True):
            found.append(rows)
            if file is not None:
                file.write(json.dumps([asdict(row) for row in rows]).encode() + b"\n")
                file.flush()
    return [row for rows in found for row in rows]


def _key(dataset: Dataset, split: str, methods: Sequence[str], pairs_per_class: int, seed: int) -> str:
    """Hash everything that changes a row."""
    code = [
        *(code_hash(name, "*.py") for name in ("qecnet.algebra", "qecnet.geometry", __package__)),
    ]
    about = [dataset.fingerprint(split), list(methods), pairs_per_class, seed, code]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()


def _read_kept(file: BinaryIO, start: int) -> list[list[AlignedPair]]:
    """Read the rows of each pair, one line per pair; an unfinished last line is removed."""
    file.seek(start)
    whole, newline, _ = file.read().rpartition(b"\n")
    file.truncate(start + len(whole) + len(newline))
    return [[_row(values) for values in json.loads(line)] for line in whole.splitlines()]


def _row(values: dict[str, Any]) -> AlignedPair:
    """Build a row from JSON, which has lists for tuples."""
    given: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in values.items()}
    return AlignedPair(**given)


def score(rows: Sequence[AlignedPair], classes: Sequence[str]) -> BaselineErrors:
    """Score one method in one table."""
    labels = np.array([row.label for row in rows], dtype=np.int64)
    predicted, first, second = (
        np.array(quaternions, dtype=np.float64).reshape(-1, 4)
        for quaternions in (
            [IDENTITY if row.predicted is None else row.predicted for row in rows],
            [row.first for row in rows],
            [row.second for row in rows],
        )
    )
    plain = rotation_angles(predicted, relative_rotation(first, second))
    groups = group_errors(plain, symmetric_angles(predicted, first, second, labels, classes), labels, classes)
    return BaselineErrors(
        **vars(groups),
        seconds=float(np.mean([row.seconds for row in rows])) if rows else None,
        no_answer=sum(row.predicted is None for row in rows),
    )


def list_pairs(dataset: Dataset, split: str, table: PairTable, count: int, seed: int) -> Iterator[_Pair]:
    """List `count` pairs of each class, or as many as there are; each round over its shapes uses new views."""
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
            yield _Pair(table, _ShapeView(a, items[a], 2 * turn), _ShapeView(b, items[b], 2 * turn + 1))


def _load(methods: Sequence[str]) -> None:
    """Import what the methods need before timing starts; a missing package is reported at once."""
    for name in methods:
        if needed := METHODS[name].package:
            import_package(needed)


def _align_pair(pair: _Pair, methods: tuple[str, ...], seed: int) -> list[AlignedPair]:
    """Align one pair by each method."""
    (source, first), (target, second) = (sample_rotated(view, seed) for view in (pair.source, pair.target))
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
        rows.append(AlignedPair(pair.table, name, pair.source.item.label, shapes, *turned, predicted, seconds))
    return rows


def sample_rotated(view: _ShapeView, seed: int) -> tuple[PointCloud, Tensor]:
    """Sample a view of a shape, with points of its own, and its rotation, (4,) WXYZ, float64."""
    generator = torch.Generator().manual_seed(derive_seed(seed, _SAMPLE, view.number, view.view))
    cloud = replace(sample_points(view.item.load(), PrepareConfig().points, generator, KEEP), normals=None)
    q = random_quaternion((), derive_seed(seed, _ROTATION, view.number, view.view), dtype=torch.float64)
    return replace(cloud, points=rotate(q, cloud.points.double()).to(cloud.points.dtype)), q
