"""Google Scanned Objects (Downs et al. 2022, CC-BY 4.0): about a thousand scanned household objects, z up.

The folder holds `<name>/model.obj`, like `models` in github.com/kevinzakka/mujoco_scanned_objects. There are no
classes, so all objects have the class "object". There is no official split either: an object belongs to the train split
if the SHA-256 of its name begins with 0 to 7, and to the test split otherwise.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from qecnet.datasets._sources import FileSource
from qecnet.datasets.dataset import Dataset, Item

NAME = "scanned_objects"


def open_scanned_objects(path: Path) -> Dataset:
    """Open the folder that holds `<name>/model.obj`; only the geometry is read.

    Raises:
        ValueError: If there is no such file.
    """
    files = sorted(path.glob("*/model.obj"))
    if not files:
        raise ValueError(f"{path}: holds no <name>/model.obj; give the folder of Google Scanned Objects' models")
    splits: dict[str, list[Item]] = {"train": [], "test": []}
    for file in files:
        name = file.parent.name
        splits[split_of(name)].append(Item(0, name, FileSource.from_path(file)))
    return Dataset(NAME, ("object",), {split: tuple(items) for split, items in splits.items()})


def split_of(name: str) -> str:
    """The split of an object, decided by the first digit of the SHA-256 of its name."""
    return "train" if hashlib.sha256(name.encode()).hexdigest()[0] in "01234567" else "test"
