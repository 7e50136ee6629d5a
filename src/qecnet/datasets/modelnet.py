"""ModelNet10 and ModelNet40 (Wu et al. 2015), in each form that people have them in, told by what is there.

- The official folders or zip of OFF meshes, `<class>/<split>/<name>.off`.
- The packed zips, `<class>/<split>/<name>.drc`: see `_sources.py` for the order of their points.
- `modelnet40_normal_resampled`: TXT clouds with normals, and lists of names for either dataset.
- HDF5 files: those known as `modelnet40_ply_hdf5_2048`, and any others with `data`, `label`, perhaps `name`, `normal`
  and `points` (how many rows of `data` are real), listed in `train_files.txt` and `test_files.txt`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from qecnet.datasets._modelnet_counts import OFFICIAL
from qecnet.datasets._sources import Hdf5Source, open_hdf5
from qecnet.datasets.dataset import Dataset, Item
from qecnet.datasets.folder import entries_of, folder, members

_LISTS = "_shape_names.txt"


def open_dataset(path: str | os.PathLike[str], name: str | None = None, *, seed: int = 0) -> Dataset:
    """Opens ModelNet in any of its forms, or a user's own folder, told by what is at `path`.

    ModelNet's official split is kept, and its counts are checked: `Dataset.notes` says what is missing. A folder
    without splits is split by `seed`.

    Args:
        path: a folder or a zip.
        name: "modelnet10" or "modelnet40" to make sure that it is this dataset; anything else is what to call it; by
            default it is recognised by its classes.

    Raises:
        ValueError: where the path is wrong, empty, unpacked by half, or holds another dataset than `name`.
    """
    path = Path(path)
    if not path.exists():
        raise ValueError(f"{path}: there is no such folder or zip; give the path of a dataset")
    if path.is_dir() and not any(path.iterdir()):
        raise ValueError(f"{path}: is an empty folder; give the path of a dataset")
    if path.is_file() and (inside := _lists_in_zip(path)):
        raise ValueError(f"{path}: is read unpacked only ({inside} is in it); unzip it and give the folder")
    for place in _places(path):
        if any(place.glob(f"modelnet*{_LISTS}")):
            return _checked(_resampled(place, name), name, place)
        if any(place.glob("*.h5")) or (place / "train_files.txt").exists():
            return _checked(_hdf5(place, name), name, place)
    dataset, with_splits = folder(path, name, seed)
    if with_splits:
        return _checked(dataset, name, path)
    if name in OFFICIAL:
        raise ValueError(
            f"{path}: has no train and test folders, so no official split; it is not {name} as it is given out"
        )
    return dataset


def _places(path: Path) -> list[Path]:
    """Where lists of shapes may be: in a folder, or in the only one that it holds, as archives are often unpacked."""
    if not path.is_dir():
        return []
    below = [p for p in path.iterdir() if p.is_dir() and not p.name.startswith((".", "__MACOSX"))]
    return [path, *below] if len(below) == 1 else [path]


def _lists_in_zip(path: Path) -> str | None:
    """The first member that says that a zip holds HDF5 files or the resampled clouds."""
    return next((m.filename for m in members(path) if m.filename.endswith((".h5", _LISTS))), None)


def _resampled(path: Path, name: str | None) -> Dataset:
    """`<class>/<name>.txt`, and lists of names for each split of one or of both datasets."""
    which = name if name in OFFICIAL else "modelnet40"
    if not (path / f"{which}{_LISTS}").exists():
        raise ValueError(f"{path}: has no {which}{_LISTS}; it is another dataset, or was unpacked by half")
    classes = tuple(_lines(path / f"{which}{_LISTS}"))
    label = {name: i for i, name in enumerate(classes)}
    there = {entry.stem: entry for entry in entries_of(path) if len(entry.parts) == 2}
    splits = {}
    for split in ("train", "test"):
        # The class is the shape's name without its number; some classes' own names have an underscore.
        listed = [(shape, shape.rpartition("_")[0]) for shape in _lines(path / f"{which}_{split}.txt")]
        if unknown := next((shape for shape, of in listed if of not in label), None):
            raise ValueError(f"{path}: {which}_{split}.txt names {unknown}, whose class is not in {which}{_LISTS}")
        splits[split] = tuple(Item(label[of], shape, there[shape].source) for shape, of in listed if shape in there)
    return Dataset(name or which, classes, splits)


def _hdf5(path: Path, name: str | None) -> Dataset:
    """The rows of the files listed in `<split>_files.txt`, which may name folders of the machine they were made on."""
    classes = tuple(_lines(path / "shape_names.txt"))
    splits = {
        split: tuple(
            item for line in _lines(path / f"{split}_files.txt") for item in _rows(path / Path(line).name, classes)
        )
        for split in ("train", "test")
    }
    return Dataset(name or path.resolve().name, classes, splits)


def _rows(path: Path, classes: tuple[str, ...]) -> Iterator[Item]:
    with open_hdf5(path) as file:
        if missing := [array for array in ("data", "label") if array not in file]:
            raise ValueError(f"{path}: has no array `{missing[0]}`; ModelNet's HDF5 files have `data` and `label`")
        labels = file["label"][:].reshape(-1).astype(int).tolist()
        numbered = [f"{path.stem}_{row:04d}" for row in range(len(labels))]
        names = file["name"].asstr()[:].tolist() if "name" in file else numbered
        data = file["data"].shape
    if len(data) != 3 or data[2] != 3 or data[0] != len(labels) or len(names) != len(labels):
        raise ValueError(
            f"{path}: has data of shape {data} for {len(labels)} labels and {len(names)} names; get it again"
        )
    status = path.stat()
    for row, (label, shape) in enumerate(zip(labels, names, strict=True)):
        if not 0 <= label < len(classes):
            raise ValueError(f"{path}: row {row} has the label {label}, and shape_names.txt has {len(classes)} classes")
        yield Item(label, shape, Hdf5Source(path, row, shape, status.st_size, status.st_mtime_ns))


def _lines(path: Path) -> list[str]:
    try:
        lines = path.read_text().split()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read; the dataset was unpacked by half, or is another one") from error
    if not lines:
        raise ValueError(f"{path}: is empty; unpack the dataset again")
    return lines


def _checked(dataset: Dataset, name: str | None, path: Path) -> Dataset:
    """The dataset under its official name, with a note on each split that is not whole; or a sentence why it is not.

    A dataset that was opened under a name of its own is not compared with anything.
    """
    held = {c for split in dataset.splits for c, count in dataset.counts(split).items() if count}
    if not held:
        raise ValueError(f"{path}: names its shapes and holds none of them; unpack the dataset again")
    is_really = next((known for known, counts in OFFICIAL.items() if held == counts.keys()), None)
    which = name or is_really
    if which is None:
        return replace(dataset, notes=_perhaps_cut_short(held, path))
    if which not in OFFICIAL:
        return dataset
    if is_really not in (None, which):
        raise ValueError(f"{path}: is {is_really}, not {which}; give the path of {which}, or the right name")
    counts = OFFICIAL[which]
    if strange := sorted(held - counts.keys()):
        raise ValueError(
            f"{path}: is not {which}: it has the classes {_some(strange)}, and {which} has not; "
            "give the right path, or another name"
        )
    if missing := sorted(counts.keys() - held):
        raise ValueError(f"{path}: has no shapes of {_some(missing)}, as {which} should; unpack the dataset again")
    notes = [_compared(dataset.counts(split), split, which, path) for split in ("train", "test")]
    return replace(dataset, name=which, notes=tuple(note for note in notes if note))


def _compared(found: dict[str, int], split: str, which: str, path: Path) -> str | None:
    """A sentence on a split whose counts are not the official ones."""
    official = {c: both[split] for c, both in OFFICIAL[which].items()}
    short = [f"{n - found[c]:,} of {c}" for c, n in official.items() if found[c] < n]
    beyond = [f"{found[c] - n:,} of {c}" for c, n in official.items() if found[c] > n]
    if not short and not beyond:
        return None
    missing = f"; missing are {_some(short)}" if any(found.values()) and short else ""
    too_many = f"; too many are {_some(beyond)}" if beyond else ""
    return (
        f"{path}: has {sum(found.values()):,} of the {sum(official.values()):,} {split} shapes of {which}"
        f"{missing}{too_many}"
    )


def _perhaps_cut_short(held: set[str], path: Path) -> tuple[str, ...]:
    """A sentence on classes that are all ModelNet's and yet neither its ten nor its forty."""
    absent = sorted(OFFICIAL["modelnet10" if held <= OFFICIAL["modelnet10"].keys() else "modelnet40"].keys() - held)
    if not held <= OFFICIAL["modelnet40"].keys():
        return ()
    return (f"{path}: has only classes of ModelNet, but none of {_some(absent)}; was it unpacked by half?",)


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
