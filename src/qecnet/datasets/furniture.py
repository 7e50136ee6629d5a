"""The dataset `shapes`: procedural furniture of ModelNet10's ten classes, for tests and demos without a download.

z is up, the front faces −y, and units are metres. Each part is a closed surface with outward normals; parts overlap, as
they do in most meshes of furniture.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from qecnet.datasets import _bathroom, _cabinets, _seating
from qecnet.datasets._solids import Solid
from qecnet.datasets.dataset import TEST_SHARE, Dataset, Item, derive_seed
from qecnet.fingerprint import code_hash
from qecnet.geometry import Mesh

_MAKERS: dict[str, Callable[[np.random.Generator], Solid]] = {
    "bathtub": _bathroom.bathtub,
    "bed": _seating.bed,
    "chair": _seating.chair,
    "desk": _cabinets.desk,
    "dresser": _cabinets.dresser,
    "monitor": _cabinets.monitor,
    "night_stand": _cabinets.night_stand,
    "sofa": _seating.sofa,
    "table": _cabinets.table,
    "toilet": _bathroom.toilet,
}
FURNITURE_CLASSES = tuple(_MAKERS)


def make_shape(kind: str, seed: int) -> Mesh:
    """Make one piece of furniture.

    Args:
        kind: one of `FURNITURE_CLASSES`.
        seed: the same seed makes the same piece.

    Returns:
        A closed mesh, upright.
    """
    if kind not in _MAKERS:
        raise ValueError(f"{kind} is not a class of procedural furniture; use one of {', '.join(FURNITURE_CLASSES)}")
    vertices, faces = _MAKERS[kind](np.random.default_rng(seed))
    return Mesh(torch.from_numpy(vertices), torch.from_numpy(faces), kind)


def make_furniture(per_class: int = 100, seed: int = 0) -> Dataset:
    """Make the dataset `shapes`.

    Args:
        per_class: number of pieces of each class, the last fifth of which (at least one) is the test split.
        seed: a piece depends on this, its class and its number only, not on how many there are.

    Returns:
        The dataset.
    """
    if per_class < 2:
        raise ValueError(f"per_class is {per_class}; a train and a test split need at least 2")
    first_test = per_class - max(1, round(TEST_SHARE * per_class))

    def split(numbers: range) -> tuple[Item, ...]:
        return tuple(
            Item(label, f"{kind}_{number:04d}", SeedSource(kind, derive_seed(seed, label, number)))
            for label, kind in enumerate(FURNITURE_CLASSES)
            for number in numbers
        )

    splits = {"train": split(range(first_test)), "test": split(range(first_test, per_class))}
    return Dataset("shapes", FURNITURE_CLASSES, splits)


@dataclass(frozen=True)
class SeedSource:
    """A shape that is generated on request."""

    kind: str
    seed: int

    def load(self) -> Mesh:
        return make_shape(self.kind, self.seed)

    @property
    def stamp(self) -> str:
        code = code_hash("qecnet.datasets", "_bathroom.py", "_cabinets.py", "_seating.py", "_solids.py", "_supports.py")
        return f"{self.kind} {self.seed} {code}"
