"""Datasets: class names, and for each split the labelled shapes, each loaded on request.

An item only stores where its shape is, so a dataset is small and can be sent to worker processes.
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

from qecnet.geometry import Mesh, PointCloud

TEST_SHARE = 0.2
"""The share of the shapes that are for testing, in datasets without a split of their own."""


class Source(Protocol):
    """Where a shape comes from: a file, a member of a zip, a row of an HDF5 file, a seed. It can be pickled."""

    def load(self) -> Mesh | PointCloud: ...

    @property
    def stamp(self) -> str:
        """A text that changes when the content does, and does not depend on where the content is stored."""


@dataclass(frozen=True)
class Item:
    """One shape of a dataset.

    Attributes:
        label: Index into the dataset's classes.
        name: For example "chair_0001".
        source: Where the shape is loaded from.
    """

    label: int
    name: str
    source: Source

    def load(self) -> Mesh | PointCloud:
        """Load the shape as it is stored.

        Returns:
            The shape, in its own coordinates.
        """
        return self.source.load()

    def load_cloud(self, count: int = 10_000, *, generator: torch.Generator | int = 0) -> PointCloud:
        """Load the shape as a cloud.

        Args:
            count: Number of points to sample from a mesh; a stored cloud is returned whole.
            generator: Generator or seed of that sample.

        Returns:
            The cloud, in the shape's own coordinates.
        """
        shape = self.load()
        if isinstance(shape, PointCloud):
            return shape
        if isinstance(generator, int):
            generator = torch.Generator().manual_seed(generator)
        return shape.sample(count, generator)


@dataclass(frozen=True)
class Dataset:
    """A labelled collection of shapes.

    Attributes:
        name: "modelnet10", "modelnet40", "scanned_objects", "shapes", or the name of a folder.
        classes: Class names; an item's label is an index into them.
        splits: The items of each split by its name, "train" and "test" first.
        notes: One sentence for each thing that is missing or unusual, for the caller to print.
    """

    name: str
    classes: tuple[str, ...]
    splits: Mapping[str, tuple[Item, ...]]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(items):,} {split}" for split, items in self.splits.items())
        return f"Dataset({self.name}: {sizes}, {len(self.classes)} classes)"

    def items(self, split: str) -> tuple[Item, ...]:
        """Get the items of a split.

        Args:
            split: its name, such as "train".

        Returns:
            The items, in a fixed order.

        Raises:
            ValueError: If there is no such split, or nothing in it.
        """
        if not self.splits.get(split):
            filled = ", ".join(name for name, items in self.splits.items() if items)
            raise ValueError(f"{self.name}: has no shapes in the split {split}; it has {filled}")
        return self.splits[split]

    def counts(self, split: str) -> dict[str, int]:
        """Count the shapes of each class in a split.

        Args:
            split: its name; one that does not exist is empty.

        Returns:
            The number of shapes by class name.
        """
        found = Counter(item.label for item in self.splits.get(split, ()))
        return {name: found[label] for label, name in enumerate(self.classes)}

    def fingerprint(self, split: str) -> str:
        """Hash the classes, and each item's label, name and content stamp, in order.

        Args:
            split: whose items.

        Returns:
            SHA-256, in hexadecimal.
        """
        rows = [(item.label, item.name, item.source.stamp) for item in self.items(split)]
        return hashlib.sha256(json.dumps([self.classes, rows]).encode()).hexdigest()


def stratified_split(labels: Sequence[int], share: float, seed: int) -> tuple[list[int], list[int]]:
    """Split indices 0 to N − 1 in two, class by class.

    Args:
        labels: Class of each of the N items.
        share: Share of each class to hold out, rounded, but at least one item and never all; a class with a single item
            is kept. One class's choice does not depend on the others.
        seed: Decides which.

    Returns:
        Indices to keep and indices held out, both ascending.
    """
    if not 0 < share < 1:
        raise ValueError(f"share is {share}; the part to hold out has to be above 0 and below 1")
    array = np.asarray(labels)
    held: list[int] = []
    for label in np.unique(array):
        members = np.flatnonzero(array == label)
        if len(members) > 1:
            count = min(max(1, round(share * len(members))), len(members) - 1)
            generator = torch.Generator().manual_seed(derive_seed(seed, int(label)))
            held += members[torch.randperm(len(members), generator=generator)[:count].numpy()].tolist()
    return sorted(set(range(len(array))) - set(held)), sorted(held)


def derive_seed(*numbers: int) -> int:
    """Derive a seed for one part of a whole (a shape, an epoch), unrelated to the seeds of its neighbours.

    Args:
        numbers: the seed of the whole, then what identifies the part.

    Returns:
        The seed.
    """
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])
