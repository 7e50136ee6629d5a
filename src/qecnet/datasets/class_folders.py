"""Shapes in a folder or a zip: `<class>/<split>/<file>`, or `<class>/<file>`, which is then split by a fixed seed."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath

from qecnet.datasets._sources import FileSource, ZipSource
from qecnet.datasets.dataset import TEST_SHARE, Dataset, Item, Source, stratified_split
from qecnet.formats import SUFFIXES

SPLITS = ("train", "test", "val")
_SEED = 0  # of the test split of a folder without splits
_DEEPEST = 5  # levels of folders to search: enough for a wrapped dataset, and a wrong root does not take an hour
_LAYOUT = "a dataset is <class>/train/<file> with <class>/test/<file>, or <class>/<file>"
_PLY_HEADER = re.compile(rb"ply\s.*?end_header", re.DOTALL)


@dataclass(frozen=True)
class Entry:
    """A file below the root: its folders and name, its size in bytes, and how to load it."""

    parts: tuple[str, ...]
    size: int
    source: Source

    @property
    def stem(self) -> str:
        return PurePosixPath(self.parts[-1]).stem


def open_folder(path: Path, name: str) -> tuple[Dataset, bool]:
    """The shapes in a folder or a zip, and whether it has its own splits; if not, a fifth of each class is for testing.

    Classes are in alphabetical order. Extra folders around the whole dataset make no difference.
    """
    entries, has_splits = _arrange(path, find_entries(path))
    classes = tuple(sorted({entry.parts[0] for entry in entries}))
    items = [Item(classes.index(entry.parts[0]), entry.stem, entry.source) for entry in entries]
    if has_splits:
        indices = {split: [i for i, entry in enumerate(entries) if entry.parts[1] == split] for split in SPLITS}
        notes = []
    else:
        train, test = stratified_split([item.label for item in items], TEST_SHARE, _SEED)
        indices = {"train": train, "test": test}
        notes = [f"{path}: has no train and test folders; {len(test):,} random shapes are the test split"]
    splits = {s: tuple(items[i] for i in chosen) for s, chosen in indices.items() if s != "val" or chosen}
    notes += _count_clouds_among_meshes(splits, path)
    return Dataset(name, classes, splits, tuple(notes)), has_splits


def find_entries(path: Path) -> list[Entry]:
    """Every shape file below a folder or in a zip, sorted by path.

    Raises:
        ValueError: If one of them is empty.
    """
    found = list(_walk_folder(path) if path.is_dir() else _walk_zip(path))
    for entry in found:
        if entry.size == 0:
            where = "/".join(entry.parts)
            raise ValueError(f"{path}: {where} is empty, so the dataset was not unpacked completely; unpack it again")
    return sorted(found, key=lambda entry: entry.parts)


def list_members(path: Path) -> list[zipfile.ZipInfo]:
    """The members of a zip.

    Raises:
        ValueError: If the file is not a complete zip.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.infolist()
    except (zipfile.BadZipFile, EOFError) as error:
        raise ValueError(f"{path}: is not a complete zip file; download it again") from error


def is_ignored(name: str) -> bool:
    """Check whether a file or folder is ignored: hidden ones, `README`, `LICENSE` and `__MACOSX` contain no shapes.

    Args:
        name: its name, without its folder.

    Returns:
        True if it is ignored.
    """
    return name.startswith((".", "__MACOSX")) or name.lower().partition(".")[0] in ("readme", "license")


def _arrange(path: Path, entries: list[Entry]) -> tuple[list[Entry], bool]:
    """Entries as <class>/<split>/<file> (True) or <class>/<file> (False), without the folders around the dataset."""
    in_splits = [entry for entry in entries if len(entry.parts) > 2 and entry.parts[-2] in SPLITS]
    depth = 3 if in_splits else 2
    entries = in_splits or [entry for entry in entries if len(entry.parts) > 1]
    if not entries:
        raise ValueError(f"{path}: holds no shapes in folders by class; {_LAYOUT}")
    around = 0
    while len({entry.parts[around] for entry in entries}) == 1 and min(len(e.parts) for e in entries) > around + depth:
        around += 1
    if around and (packs := sorted(p.name for p in path.glob("*.zip")) if path.is_dir() else []):
        raise ValueError(f"{path}: holds {', '.join(packs)} besides folders; give the path of the one to open")
    if depth == 2 and not {entry.parts[around] for entry in entries}.isdisjoint(SPLITS):
        raise ValueError(f"{path}: has train or test where classes should be; {_LAYOUT}")
    for entry in entries:
        if len(entry.parts) != around + depth:
            raise ValueError(f"{path}: {'/'.join(entry.parts)} is deeper than the rest; {_LAYOUT}")
    return [Entry(entry.parts[around:], entry.size, entry.source) for entry in entries], depth == 3


def _walk_folder(root: Path) -> Iterable[Entry]:
    for place, folders, files in os.walk(root, followlinks=True):
        here = Path(place).relative_to(root).parts
        folders[:] = [name for name in folders if not is_ignored(name) and len(here) < _DEEPEST]
        for name in files:
            if not is_ignored(name) and PurePath(name).suffix.lower() in SUFFIXES:
                source = FileSource.from_path(Path(place, name))
                yield Entry((*here, name), source.size, source)


def _walk_zip(path: Path) -> Iterable[Entry]:
    for info in list_members(path):
        member = PurePosixPath(info.filename)
        is_shape = member.suffix.lower() in (*SUFFIXES, ".drc")
        if is_shape and not info.is_dir() and not any(map(is_ignored, member.parts)):
            yield Entry(member.parts, info.file_size, ZipSource(path, info.filename, info.CRC))


def _count_clouds_among_meshes(splits: dict[str, tuple[Item, ...]], path: Path) -> list[str]:
    """A note if some PLY files of a dataset of meshes hold points only, as seen from their headers."""
    counts: dict[str, list[int]] = {}
    total = 0
    for split, items in splits.items():
        for item in items:
            if isinstance(item.source, FileSource) and item.source.path.suffix.lower() == ".ply":
                with item.source.path.open("rb") as file:
                    header = _PLY_HEADER.match(file.read(4096))
                total += 1
                if header and not re.search(rb"element\s+face\s+[1-9]", header[0]):
                    vertices = re.search(rb"element\s+vertex\s+(\d+)", header[0])
                    counts.setdefault(split, []).append(int(vertices[1]) if vertices else 0)
    clouds = sum(map(len, counts.values()))
    if clouds in (0, total):
        return []
    fewest = min(map(min, counts.values()))
    by_split = " and ".join(f"{len(found):,} {split}" for split, found in counts.items())
    return [f"{path}: {by_split} shapes are clouds (the sparsest has {fewest:,} points); the others are meshes"]
