"""What every dataset is: class names, and for each split the labelled shapes, each loaded when it is asked for.

An item knows where its shape is and no more, so that a dataset is light and goes to worker processes as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from qecnet.geometry.cloud import PointCloud
from qecnet.geometry.mesh import Mesh


class Source(Protocol):
    """Where a shape comes from: a file, a member of a zip, a row of an HDF5 file, a seed. It can be pickled."""

    def load(self) -> Mesh | PointCloud: ...

    @property
    def stamp(self) -> str:
        """Changes when the content does; says nothing about where on this machine the content is."""


@dataclass(frozen=True)
class Item:
    """One shape of a dataset: `label` is an index into the dataset's classes, `name` is as in ``chair_0001``."""

    label: int
    name: str
    source: Source

    def load(self) -> Mesh | PointCloud:
        """The shape as it is stored, in its own coordinates."""
        return self.source.load()

    def cloud(self, count: int = 10_000, *, generator: torch.Generator | int = 0) -> PointCloud:
        """A stored cloud as it is, or `count` points drawn from a mesh, as `read_cloud` does for a file."""
        shape = self.load()
        if isinstance(shape, PointCloud):
            return shape
        return shape.sample(
            count, torch.Generator().manual_seed(generator) if isinstance(generator, int) else generator
        )


@dataclass(frozen=True)
class Dataset:
    """A labelled collection of shapes.

    Attributes:
        name: "modelnet10", "modelnet40", "shapes", or a folder's own name.
        classes: their names; an item's label is an index into them.
        splits: the items of each split by its name, "train" and "test" first.
        notes: a sentence for each thing that is not as the official release has it, for the caller to print.
    """

    name: str
    classes: tuple[str, ...]
    splits: Mapping[str, tuple[Item, ...]]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(items):,} {split}" for split, items in self.splits.items())
        return f"Dataset({self.name}: {sizes}, {len(self.classes)} classes)"

    def items(self, split: str) -> tuple[Item, ...]:
        """The items of a split, or one sentence where there is no such split or nothing in it."""
        if not self.splits.get(split):
            there = ", ".join(name for name, items in self.splits.items() if items)
            raise ValueError(f"{self.name}: has no shapes in the split {split}; it has {there}")
        return self.splits[split]

    def counts(self, split: str) -> dict[str, int]:
        """How many shapes of each class a split has."""
        found = Counter(item.label for item in self.splits.get(split, ()))
        return {name: found[label] for label, name in enumerate(self.classes)}

    def fingerprint(self, split: str) -> str:
        """A hash of everything in a split: classes, and each item's label, name and content stamp, in order."""
        rows = [(item.label, item.name, item.source.stamp) for item in self.items(split)]
        return hashlib.sha256(json.dumps([self.classes, rows]).encode()).hexdigest()


def stratified(labels: Sequence[int], share: float, seed: int) -> tuple[list[int], list[int]]:
    """Splits indices 0..N − 1 in two, class by class: (kept, held out), both ascending.

    Of each class with two or more members the held-out part is `share`, rounded, but at least one and never all; a
    class of one is kept. One class's choice does not depend on the others.
    """
    if not 0 < share < 1:
        raise ValueError(f"share is {share}; a part to hold out is above 0 and below 1")
    array = np.asarray(labels)
    held: list[int] = []
    for label in np.unique(array):
        members = np.flatnonzero(array == label)
        if len(members) > 1:
            count = min(max(1, round(share * len(members))), len(members) - 1)
            generator = torch.Generator().manual_seed(derived_seed(seed, int(label)))
            held += members[torch.randperm(len(members), generator=generator)[:count].numpy()].tolist()
    return sorted(set(range(len(array))) - set(held)), sorted(held)


def derived_seed(*numbers: int) -> int:
    """A seed for one part of a whole, the way `prepare_many` seeds each cloud: far from its neighbours' seeds."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])
