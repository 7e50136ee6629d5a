"""Frames of many shapes, several subsamplings each, by several processes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch

from qecnet.datasets.dataset import Item, derive_seed
from qecnet.geometry import OrientedPoints, PrepareConfig, prepare, sample_points
from qecnet.workers import in_order


@dataclass(frozen=True)
class Task:
    """What is done with each shape; `subsampling` is the layout of one `OrientedPoints` in the file."""

    config: PrepareConfig
    subsamplings: int
    keep: float
    thinnest: float
    seed: int
    subsampling: np.dtype[np.void]


def records(items: Sequence[Item], first: int, task: Task, workers: int) -> Generator[bytes]:
    """The records of items from number `first` on, in order; the number of workers does not change them."""
    yield from in_order(_record, ((number, items[number], task) for number in range(first, len(items))), workers)


def _record(number: int, item: Item, task: Task) -> bytes:
    """One shape's subsamplings, each drawn with a generator of its own."""
    shape = item.load()
    rows = np.zeros(task.subsamplings, task.subsampling)
    for s in range(task.subsamplings):
        generator = torch.Generator().manual_seed(derive_seed(task.seed, number, s))
        thinned = task.thinnest ** (s / max(1, task.subsamplings - 1))
        cloud = sample_points(shape, task.config.points, generator, task.keep, thinned)
        points = prepare(cloud, task.config, generator)
        for field in fields(OrientedPoints):
            rows[field.name][s] = getattr(points, field.name).numpy()
    return rows.tobytes()
