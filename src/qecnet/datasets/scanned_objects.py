"""Google Scanned Objects (Downs et al. 2022, CC-BY 4.0): about a thousand scanned household objects, z up.

The folder holds `<name>/model.obj`, like `models` in github.com/kevinzakka/mujoco_scanned_objects. Classes are the
categories of the original models, as listed in github.com/google-research/kubric (challenges/movi/movi_f.py) and here
in `scanned_objects.csv`. There is no official split: an object belongs to the train split if the SHA-256 of its name
begins with 0 to 7, and to the test split otherwise.
"""

from __future__ import annotations

import csv
import hashlib
from collections import Counter
from pathlib import Path

from qecnet.datasets._sources import FileSource
from qecnet.datasets.dataset import Dataset, Item

NAME = "scanned_objects"

_CATEGORIES = Path(__file__).with_suffix(".csv")
_LEAST = 10  # objects of a category; smaller ones count as others
_OTHERS, _NONE = "others", "no category"


def open_scanned_objects(path: Path) -> Dataset:
    """Open the folder that holds `<name>/model.obj`; only the geometry is read.

    Raises:
        ValueError: If there is no such file.
    """
    files = sorted(path.glob("*/model.obj"))
    if not files:
        raise ValueError(f"{path}: holds no <name>/model.obj; give the folder of Google Scanned Objects' models")
    categories = _read_categories()
    classes = (*sorted({*categories.values()} - {_OTHERS}), _OTHERS, _NONE)
    splits: dict[str, list[Item]] = {"train": [], "test": []}
    for file in files:
        name = file.parent.name
        label = classes.index(categories.get(name, _NONE))
        splits[split_of(name)].append(Item(label, name, FileSource.from_path(file)))
    return Dataset(NAME, classes, {split: tuple(items) for split, items in splits.items()})


def split_of(name: str) -> str:
    """The split of an object, decided by the first digit of the SHA-256 of its name."""
    return "train" if hashlib.sha256(name.encode()).hexdigest()[0] in "01234567" else "test"


def _read_categories() -> dict[str, str]:
    """Read the categories of objects by name, small ones merged; objects that have none are not listed."""
    with _CATEGORIES.open(newline="", encoding="utf-8") as file:
        found = {row["name"]: row["category"] for row in csv.DictReader(file)}
    sizes = Counter(found.values())
    return {name: category if sizes[category] >= _LEAST else _OTHERS for name, category in found.items()}
