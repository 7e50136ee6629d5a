"""Frames of many shapes, several subsamplings each, by several processes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch

from qecnet.datasets.camera_views import TRAINING_CAMERA, sample_view
from qecnet.datasets.dataset import Item, derive_seed
from qecnet.geometry import (
    Mesh,
    OrientedPoints,
    PointCloud,
    PrepareConfig,
    drop_implausible_viewpoint,
    prepare,
    sample_points,
)
from qecnet.workers import in_order


@dataclass(frozen=True)
class Task:
    """How each shape is sampled and prepared; `subsampling` is the layout of one `OrientedPoints` in the file."""

    config: PrepareConfig
    subsamplings: int
    views: int
    keep: float
    thinnest: float
    seed: int
    subsampling: np.dtype[np.void]


def records(items: Sequence[Item], first: int, task: Task, workers: int) -> Generator[bytes]:
    """The records of items from number `first` on, in order, whatever the number of workers."""
    yield from in_order(_record, ((number, items[number], task) for number in range(first, len(items))), workers)


def _record(number: int, item: Item, task: Task) -> bytes:
    """One shape's subsamplings, each sampled with its own generator."""
    shape = item.load()
    rows = np.zeros(task.subsamplings, task.subsampling)
    for s in range(task.subsamplings):
        generator = torch.Generator().manual_seed(derive_seed(task.seed, number, s))
        points = prepare(_subsample(shape, s, task, generator), task.config, generator)
        for field in fields(OrientedPoints):
            rows[field.name][s] = getattr(points, field.name).numpy()
    return rows.tobytes()


def _subsample(shape: Mesh | PointCloud, s: int, task: Task, generator: torch.Generator) -> PointCloud:
    """The whole shape at one of several densities, or, in the last `task.views` subsamplings, a view of it.

    For a shape that cameras hardly see, the result has all of its points instead of a view. A file's viewpoint counts
    where it counts in predictions.
    """
    wholes = task.subsamplings - task.views
    if s >= wholes:
        try:
            return sample_view(shape, generator, TRAINING_CAMERA).cloud
        except ValueError:
            s = 0
    thinned = task.thinnest ** (s / max(1, wholes - 1))
    return drop_implausible_viewpoint(sample_points(shape, task.config.points, generator, task.keep, thinned))
