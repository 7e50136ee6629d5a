"""`shapes`: ten classes of furniture made by our own code from a seed, for tests, demos and trials with no download.

The classes are ModelNet10's. z is up, the front looks to −y, sizes are metres; the surfaces of parts are closed and
look outwards, and parts overlap as they do in most meshes of furniture.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from qecnet.datasets import _bathroom, _keeping, _resting
from qecnet.datasets._solids import Solid
from qecnet.datasets.dataset import Dataset, Item, derived_seed
from qecnet.fingerprint import code_hash
from qecnet.geometry.mesh import Mesh

_MAKERS: dict[str, Callable[[np.random.Generator], Solid]] = {
    "bathtub": _bathroom.bathtub,
    "bed": _resting.bed,
    "chair": _resting.chair,
    "desk": _keeping.desk,
    "dresser": _keeping.dresser,
    "monitor": _keeping.monitor,
    "night_stand": _keeping.night_stand,
    "sofa": _resting.sofa,
    "table": _keeping.table,
    "toilet": _bathroom.toilet,
}
CLASSES = tuple(_MAKERS)
TEST_SHARE = 0.2


def make_shape(kind: str, seed: int) -> Mesh:
    """One piece of furniture; `kind` is one of `CLASSES`. The same seed makes the same piece."""
    if kind not in _MAKERS:
        raise ValueError(f"{kind} is no class of shapes; make one of {', '.join(CLASSES)}")
    vertices, faces = _MAKERS[kind](np.random.default_rng(seed))
    return Mesh(torch.from_numpy(vertices), torch.from_numpy(faces), kind)


def shapes(count_per_class: int = 100, seed: int = 0) -> Dataset:
    """A dataset of `count_per_class` pieces of each class, the last fifth of them (at least one) as the test split.

    A piece depends on the seed, its class and its number alone, and not on how many there are.
    """
    if count_per_class < 2:
        raise ValueError(f"count_per_class is {count_per_class}; a train and a test split need at least 2")
    first_test = count_per_class - max(1, round(TEST_SHARE * count_per_class))

    def split(numbers: range) -> tuple[Item, ...]:
        return tuple(
            Item(label, f"{kind}_{number:04d}", SeedSource(kind, derived_seed(seed, label, number)))
            for label, kind in enumerate(CLASSES)
            for number in numbers
        )

    splits = {"train": split(range(first_test)), "test": split(range(first_test, count_per_class))}
    return Dataset("shapes", CLASSES, splits)


@dataclass(frozen=True)
class SeedSource:
    """A shape that is made when it is asked for."""

    kind: str
    seed: int

    def load(self) -> Mesh:
        return make_shape(self.kind, self.seed)

    @property
    def stamp(self) -> str:
        code = code_hash("qecnet.datasets", "_bathroom.py", "_keeping.py", "_resting.py", "_solids.py", "_supports.py")
        return f"{self.kind} {self.seed} {code}"
