"""The dataset that a run's settings or a command name: one that is made, or one that is read from files."""

from __future__ import annotations

from pathlib import Path

from qecnet.datasets.dataset import Dataset
from qecnet.datasets.modelnet import open_dataset
from qecnet.datasets.shapes import shapes


def named_dataset(name: str, path: Path | None, per_class: int = 100) -> Dataset:
    """`shapes` with `per_class` pieces of each class, or what `open_dataset` finds at `path` under this name."""
    if name == "shapes":
        if path is not None:
            raise ValueError(f"{path}: shapes are made, not read; leave out --data, or name another --dataset")
        return shapes(per_class)
    if path is None:
        raise ValueError(f"{name} is read from files; say where they are with --data")
    return open_dataset(path, name)
