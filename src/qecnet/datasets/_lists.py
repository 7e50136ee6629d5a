"""ModelNet in forms that come with lists of their shapes.

- `modelnet40_normal_resampled`: TXT clouds with normals, and lists of names for ModelNet10 and ModelNet40.
- HDF5 files: those known as `modelnet40_ply_hdf5_2048`, and any others with `data` and `label`, optionally `name`,
  `normal` and `points` (how many rows of `data` are real), listed in `train_files.txt` and `test_files.txt`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from qecnet.datasets._sources import Hdf5Source, open_hdf5
from qecnet.datasets.class_folders import find_entries, list_members
from qecnet.datasets.dataset import Dataset, Item

_NAMES = "_shape_names.txt"


def open_lists(path: Path, name: str) -> tuple[Dataset, bool] | None:
    """The dataset at `path`, with True for "has its own splits"; None if there are no lists of shapes."""
    if path.is_file():
        if listed := next((m.filename for m in list_members(path) if m.filename.endswith((".h5", _NAMES))), None):
            raise ValueError(f"{path}: can only be read unpacked ({listed} is in it); unzip it and give the folder")
        return None
    # Archives are often unpacked into a folder of their own.
    below = [p for p in path.iterdir() if p.is_dir() and not p.name.startswith((".", "__MACOSX"))]
    for place in [path, *below] if len(below) == 1 else [path]:
        if any(place.glob(f"modelnet*{_NAMES}")):
            return _open_resampled(place, name), True
        if any(place.glob("*.h5")) or (place / "train_files.txt").exists():
            return _open_hdf5(place, name), True
    return None


def _open_resampled(path: Path, name: str) -> Dataset:
    """`<class>/<name>.txt`, and lists of names for each split of ModelNet10, ModelNet40 or both."""
    which = name if name in ("modelnet10", "modelnet40") else "modelnet40"
    if not (path / f"{which}{_NAMES}").exists():
        raise ValueError(f"{path}: has no {which}{_NAMES}; it is another dataset, or was only partly unpacked")
    classes = tuple(_read_words(path / f"{which}{_NAMES}"))
    label = {name: i for i, name in enumerate(classes)}
    sources = {entry.stem: entry.source for entry in find_entries(path) if len(entry.parts) == 2}
    splits = {}
    for split in ("train", "test"):
        # The class is the shape's name without its number; some classes' own names have an underscore.
        listed = [(shape, shape.rpartition("_")[0]) for shape in _read_words(path / f"{which}_{split}.txt")]
        if unknown := next((shape for shape, of in listed if of not in label), None):
            raise ValueError(f"{path}: {which}_{split}.txt lists {unknown}, whose class is not in {which}{_NAMES}")
        splits[split] = tuple(Item(label[of], shape, sources[shape]) for shape, of in listed if shape in sources)
    return Dataset(name, classes, splits)


def _open_hdf5(path: Path, name: str) -> Dataset:
    """The rows of the files listed in `<split>_files.txt`, which may name folders of the machine they were made on."""
    classes = tuple(_read_words(path / "shape_names.txt"))
    splits = {
        split: tuple(
            item
            for line in _read_words(path / f"{split}_files.txt")
            for item in _read_rows(path / Path(line).name, classes)
        )
        for split in ("train", "test")
    }
    return Dataset(name, classes, splits)


def _read_rows(path: Path, classes: tuple[str, ...]) -> Iterator[Item]:
    with open_hdf5(path) as file:
        if missing := [array for array in ("data", "label") if array not in file]:
            raise ValueError(f"{path}: has no array `{missing[0]}`; ModelNet's HDF5 files have `data` and `label`")
        labels = file["label"][:].reshape(-1).astype(int).tolist()
        numbered = [f"{path.stem}_{row:04d}" for row in range(len(labels))]
        names = file["name"].asstr()[:].tolist() if "name" in file else numbered
        data = file["data"].shape
    if len(data) != 3 or data[2] != 3 or data[0] != len(labels) or len(names) != len(labels):
        raise ValueError(
            f"{path}: has data of shape {data} for {len(labels)} labels and {len(names)} names; download it again"
        )
    status = path.stat()
    for row, (label, shape) in enumerate(zip(labels, names, strict=True)):
        if not 0 <= label < len(classes):
            raise ValueError(f"{path}: row {row} has the label {label}, but shape_names.txt has {len(classes)} classes")
        yield Item(label, shape, Hdf5Source(path, row, shape, status.st_size, status.st_mtime_ns))


def _read_words(path: Path) -> list[str]:
    try:
        words = path.read_text().split()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read; the dataset was only partly unpacked, or is another one") from error
    if not words:
        raise ValueError(f"{path}: is empty; unpack the dataset again")
    return words
