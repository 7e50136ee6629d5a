"""Open a dataset by name: one that is generated, or one that is read from files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from qecnet.datasets import _lists, class_folders, modelnet, scanned_objects
from qecnet.datasets.dataset import Dataset
from qecnet.datasets.furniture import make_furniture


def open_dataset(name: str, path: str | os.PathLike[str] | None = None, *, per_class: int = 100) -> Dataset:
    """Open a dataset.

    Args:
        name: "shapes" is generated and needs no path. "modelnet10" and "modelnet40" are read from `path` in any form in
            which they are distributed, and are checked against the official class and shape counts. "scanned_objects"
            is a folder of Google Scanned Objects. Any other name is yours to choose, for a folder or a zip of shapes in
            the layout `<class>/<split>/<file>` or `<class>/<file>`; without splits, a fifth of each class becomes the
            test split.
        path: Folder or zip.
        per_class: Number of shapes of each class to generate; for "shapes" only.

    Returns:
        The dataset. `Dataset.notes` says what is missing or unusual.

    Raises:
        ValueError: If the path is missing, wrong, empty or partly unpacked, or holds another dataset than `name`.
    """
    if name == "shapes":
        if path is not None:
            raise ValueError(f"{path}: shapes are generated, not read; give no path, or the name of another dataset")
        return make_furniture(per_class)
    if path is None:
        raise ValueError(f"{name} is read from files; give the path of their folder or zip")
    path = Path(path)
    if not path.exists():
        raise ValueError(f"{path}: there is no such folder or zip; give the path of a dataset")
    if path.is_dir() and not any(path.iterdir()):
        raise ValueError(f"{path}: is an empty folder; give the path of a dataset")
    if name == scanned_objects.NAME:
        return scanned_objects.open_scanned_objects(path)
    dataset, has_splits = _lists.open_lists(path, name) or class_folders.open_folder(path, name)
    if name not in modelnet.OFFICIAL:
        return dataset
    if not has_splits:
        raise ValueError(f"{path}: has no train and test folders, so no official split; use {name} as released")
    return replace(dataset, notes=(*dataset.notes, *modelnet.compare_with_official(dataset, path)))
