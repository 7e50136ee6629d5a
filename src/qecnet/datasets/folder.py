"""Shapes in folders or in a zip: ``<class>/<split>/<file>``, or ``<class>/<file>`` with a split by seed."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from qecnet.datasets._sources import FileSource, ZipSource
from qecnet.datasets.dataset import Dataset, Item, Source, stratified
from qecnet.formats import SUFFIXES

SPLITS = ("train", "test", "val")
TEST_SHARE = 0.2
_DEEPEST = 5  # folders below the root that are looked into: two to wrap a dataset in, and a wrong root costs no hour
_LAYOUT = "a dataset is <class>/train/<file> with <class>/test/<file>, or <class>/<file>"


@dataclass(frozen=True)
class Entry:
    """A file below a root: its folders and its name, its size in bytes, and how to load it."""

    parts: tuple[str, ...]
    size: int
    source: Source

    @property
    def stem(self) -> str:
        return PurePosixPath(self.parts[-1]).stem


def folder(path: Path, name: str | None, seed: int) -> tuple[Dataset, bool]:
    """Shapes in any format that `read` knows, from a folder or a zip of it, and whether the splits are its own.

    Classes are the folders' names in alphabetical order. Where there are no splits, a fifth of each class, drawn by
    `seed`, is the test split. Folders around all of it make no difference.
    """
    entries, with_splits = arranged(path, entries_of(path))
    classes = tuple(sorted({entry.parts[0] for entry in entries}))
    items = [Item(classes.index(entry.parts[0]), entry.stem, entry.source) for entry in entries]
    notes: tuple[str, ...] = ()
    if with_splits:
        held = {split: [i for i, entry in enumerate(entries) if entry.parts[1] == split] for split in SPLITS}
    else:
        train, test = stratified([item.label for item in items], TEST_SHARE, seed)
        held = {"train": train, "test": test}
        notes = (
            f"{path}: has no train and test folders; {len(test):,} shapes drawn by seed {seed} are the test split",
        )
    splits = {split: tuple(items[i] for i in held[split]) for split in SPLITS if split != "val" or held.get(split)}
    return Dataset(name or path.resolve().stem, classes, splits, notes), with_splits


def entries_of(path: Path) -> list[Entry]:
    """Every shape file below a folder or in a zip, sorted by place; no hidden files, READMEs and macOS's leavings."""
    found = list(_in_folder(path) if path.is_dir() else _in_zip(path))
    for entry in found:
        if entry.size == 0:
            where = "/".join(entry.parts)
            raise ValueError(f"{path}: {where} is empty, so unpacking was cut short; unpack the dataset again")
    return sorted(found, key=lambda entry: entry.parts)


def arranged(path: Path, entries: list[Entry]) -> tuple[list[Entry], bool]:
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
        raise ValueError(f"{path}: holds {', '.join(packs)} beside folders; give the path of the one that is meant")
    if depth == 2 and not {entry.parts[around] for entry in entries}.isdisjoint(SPLITS):
        raise ValueError(f"{path}: has train or test where classes should be; {_LAYOUT}")
    for entry in entries:
        if len(entry.parts) != around + depth:
            raise ValueError(f"{path}: {'/'.join(entry.parts)} is deeper than the rest; {_LAYOUT}")
    return [Entry(entry.parts[around:], entry.size, entry.source) for entry in entries], depth == 3


def _in_folder(root: Path) -> Iterable[Entry]:
    for place, folders, files in os.walk(root, followlinks=True):
        here = Path(place).relative_to(root).parts
        folders[:] = [name for name in folders if counts(name) and len(here) < _DEEPEST]
        for name in files:
            path = Path(place, name)
            if counts(name) and path.suffix.lower() in SUFFIXES:
                status = path.stat()
                yield Entry((*here, name), status.st_size, FileSource(path, status.st_size, status.st_mtime_ns))


def members(path: Path) -> list[zipfile.ZipInfo]:
    """What a zip holds, or one sentence."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.infolist()
    except (zipfile.BadZipFile, EOFError) as error:
        raise ValueError(f"{path}: is not a whole zip; it was cut short on its way, or is of another kind") from error


def _in_zip(path: Path) -> Iterable[Entry]:
    for info in members(path):
        parts = PurePosixPath(info.filename).parts
        shape = PurePosixPath(info.filename).suffix.lower() in (*SUFFIXES, ".drc")
        if shape and not info.is_dir() and all(map(counts, parts)):
            yield Entry(parts, info.file_size, ZipSource(path, info.filename, info.CRC))


def counts(name: str) -> bool:
    """Whether a file or a folder of this name may hold shapes; hidden files, READMEs and macOS's leavings do not."""
    return not name.startswith((".", "__MACOSX")) and name.lower().partition(".")[0] not in ("readme", "license")
