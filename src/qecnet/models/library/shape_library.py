"""A library of shapes that are searched by descriptor: a folder that one process adds to and many read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from qecnet.algebra import canonicalize, conjugate, multiply
from qecnet.files import alone_in
from qecnet.models.answer import Answer
from qecnet.models.hashing import hash_model
from qecnet.models.library.catalogue import ROWS, About, Catalogue, Changes, Floats, Keys, Stamp, is_unit
from qecnet.models.library.update import find_changes
from qecnet.models.library.vectors import Vectors, write_vectors
from qecnet.models.model import Model

EXACT_ROWS = 100_000
"""A library of fewer shapes has no graph: every descriptor is compared."""
_UNSEALED_ROWS = 10_000
"""A library with a graph may have this many descriptors that are not in it."""
_MOST_STALE = 0.25
"""The share of removed shapes in a graph from which it is built anew."""
_BLOCK = 8192
"""Descriptors that are compared at once."""
_WIDER = 8
"""How many times more shapes the graph is asked for than are wanted: some may be removed or filtered out."""


class Neighbour(NamedTuple):
    """A shape of a library that is similar to a query.

    Attributes:
        file: its path, relative to the folder of the library.
        label: its class, and confidence: how certain that is.
        similarity: the cosine of the two descriptors, 1 for the same shape.
        rotation: (4,), WXYZ, from it to the query.
    """

    file: str
    label: str
    confidence: float
    similarity: float
    rotation: Tensor


class Library:
    """An open library; `read_library` and `edit_library` open one, and it closes itself as a context manager.

    Attributes:
        path: its folder.
        model: the name of the model that it was made with.
        classes: of that model.
    """

    def __init__(self, path: Path, rows: Catalogue) -> None:
        self.path = path
        self.model, self.classes = rows.about.model, rows.about.classes
        self._rows = rows
        self._vectors: Vectors | None = None
        self._pending: tuple[Keys, Floats]
        self._read: tuple[int, int] | None = None
        self._resources = ExitStack()
        self._resources.callback(rows.close)

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its files and let other processes add to it."""
        if self._vectors is not None:
            self._vectors.close()
        self._resources.close()

    def __len__(self) -> int:
        return self._rows.count()

    def fits(self, model: Model) -> bool:
        """Whether it was made with this model."""
        made, given = self._rows.about, describe_model(model)
        return (made.key, made.classes, made.width) == (given.key, given.classes, given.width)

    def nearest(
        self, query: Answer, count: int = 10, *, label: str | None = None, min_confidence: float = 0.0
    ) -> list[Neighbour]:
        """Find the most similar shapes.

        Args:
            query: what the library's model predicts for a shape.
            count: the number of shapes to find.
            label: find only shapes of this class.
            min_confidence: find only shapes whose class is at least this certain, 0 to 1.

        Returns:
            At most `count` shapes, the most similar first. Rotations compare the poses for the neighbour's class.

        Raises:
            ValueError: for a class that the model does not know, and for a damaged library.
        """
        if label is not None and label not in self.classes:
            raise ValueError(f"{label}: is not a class of {self.path}; it has {', '.join(self.classes)}")
        descriptor = query.descriptor.numpy().astype(np.float32)
        with self._rows.transaction("DEFERRED"):
            self._refresh()
            keys = self._candidates(descriptor, count, label, min_confidence)
            similarity = self._compare(keys, descriptor)
            best = np.lexsort((keys, -similarity))[:count]
            rows = [self._rows.row(int(key)) for key in keys[best]]
        found = []
        for row, value in zip(rows, similarity[best].tolist(), strict=True):
            pose = query.poses[self.classes.index(row.label)]
            rotation = canonicalize(multiply(pose, conjugate(torch.from_numpy(row.pose))))
            found.append(Neighbour(row.path, row.label, row.confidence, min(value, 1.0), rotation))
        return found

    def update(self, folder: Path, files: Iterable[Path]) -> Changes:
        """Remove and rename the shapes whose files were, and find those that have to be indexed.

        Args:
            folder: the folder that paths are relative to.
            files: all files that the library is to have.
        """
        with self._rows.transaction():
            return find_changes(self._rows, folder, files)

    def add(self, entries: Iterable[tuple[str, Stamp, Answer]]) -> None:
        """Add shapes in one transaction: if the process is killed, all of them are kept, or none.

        Args:
            entries: each file's path relative to the folder of the library, its stamp, and what the model predicts for
                it. A shape of the same path is replaced.
        """
        with self._rows.transaction():
            self._rows.add(entries)
        if self._rows.count_pending() >= EXACT_ROWS:
            self.seal()

    def seal(self) -> None:
        """Put the descriptors into the graph if they are too many to compare all; takes about a second per 2,000."""
        with self._rows.transaction("DEFERRED"):
            self._refresh()
            generation = self._rows.generation
            keys, descriptors = self._pending
            graph = self._vectors
            enough = EXACT_ROWS if graph is None else _UNSEALED_ROWS
            if len(keys) < enough:
                return
            live = None
            if graph is not None and len(graph.keys) - (len(self) - len(keys)) > _MOST_STALE * len(graph.keys):
                live = np.isin(graph.keys, self._rows.matching(None, 0.0))
        if graph is not None and live is not None:
            before = None
            keys = np.concatenate((graph.keys[live], keys))
            descriptors = np.concatenate((graph.descriptors[live], descriptors))
        else:
            before = None if graph is None else graph.path
        write_vectors(self._vectors_path(generation + 1), keys, descriptors, before)
        with self._rows.transaction():
            self._rows.seal(generation + 1, int(keys[-1]))
        self._remove_unused()

    def _candidates(self, descriptor: Floats, count: int, label: str | None, confidence: float) -> Keys:
        """The ids of shapes that match and include the most similar ones."""
        keys, _ = self._pending
        if self._vectors is not None:
            nearest = self._compare(keys, descriptor).argsort()[: -_WIDER * count - 1 : -1]
            wide = np.concatenate((self._vectors.search(descriptor, _WIDER * count), keys[nearest]))
            kept = self._rows.keep_matching(wide, label, confidence)
            if len(kept) >= count:
                return kept
        elif label is None and confidence <= 0:
            return keys
        return self._rows.matching(label, confidence)

    def _compare(self, keys: Keys, descriptor: Floats) -> Floats:
        """The cosines of descriptors, by id, and another one. → (len(keys),), float32"""
        similarity = np.empty(len(keys), np.float32)
        for start in range(0, len(keys), _BLOCK):
            part = self._take(keys[start : start + _BLOCK])
            similarity[start : start + _BLOCK] = part @ descriptor / np.linalg.norm(part, axis=-1)
        return similarity / np.linalg.norm(descriptor)

    def _take(self, keys: Keys) -> Floats:
        """Descriptors by id. → (len(keys), D), float32"""
        taken = np.empty((len(keys), self._rows.about.width), np.float32)
        missing = np.ones(len(keys), bool)
        sources = [self._pending]
        if self._vectors is not None:
            sources.append((self._vectors.keys, self._vectors.descriptors))
        for known, descriptors in sources:
            if len(known):
                places = np.searchsorted(known, keys).clip(max=len(known) - 1)
                found = known[places] == keys
                taken[found] = descriptors[places[found]]
                missing &= ~found
        if missing.any() or not is_unit(taken):
            raise self._rows.damage("a shape has no descriptor of length 1")
        return taken

    def _refresh(self) -> None:
        """Read what another process may have changed. Within a transaction."""
        if self._read == self._rows.version:
            return
        generation = self._rows.generation
        if generation:
            path = self._vectors_path(generation)
            if self._vectors is None or self._vectors.path != path:
                try:
                    self._vectors = Vectors(path, self._rows.about.width)
                except FileNotFoundError as error:
                    raise self._rows.damage(f"{path.name} is missing") from error
        self._pending = self._rows.pending()
        self._read = self._rows.version

    def _vectors_path(self, generation: int) -> Path:
        return self.path / f"vectors-{generation}.usearch"

    def _remove_unused(self) -> None:
        """Remove vectors files that are not, or not yet, the library's; one that is still open goes another time."""
        used = self._vectors_path(self._rows.generation).name
        for path in _own_files(self.path):
            if path.name != used and not path.name.startswith(ROWS):
                with suppress(OSError):
                    path.unlink()


def describe_model(model: Model) -> About:
    """What a library says about the model that it is made with; confidences depend on its temperature, too."""
    return About(model.name, f"{hash_model(model)}-{model.temperature}", model.classes, model.width)


def read_library(path: Path) -> Library:
    """Open a library to search it.

    Raises:
        ValueError: for a library that is damaged, missing, or of version 0.1; one sentence that names it.
    """
    _refuse_file(path)
    if not (path / ROWS).is_file():
        raise ValueError(f"{path}: is not an index of shapes; build one with qec index")
    return Library(path, Catalogue(path))


def edit_library(path: Path, model: Model, *, replace: bool = False) -> Library:
    """Open a library to add shapes to it, or create it.

    Args:
        path: its folder, which may not exist yet.
        model: the model that it is made with.
        replace: whether to begin with an empty library where there is one already.

    Raises:
        ValueError: for a library that is damaged, was made with another model, or is of version 0.1.
        OSError: if another process is adding to it, or it cannot be written; one sentence.
    """
    _refuse_file(path)
    try:
        path.mkdir(exist_ok=True)
        if not (path / ROWS).exists() and any(name not in _own_files(path) for name in path.iterdir()):
            raise ValueError(f"{path}: is a folder of other files; give a new folder for the index")
        with ExitStack() as stack:
            stack.enter_context(alone_in(path, wait=False))
            if replace:
                for file in _own_files(path):
                    file.unlink()
            library = Library(path, Catalogue(path, describe_model(model)))
            library._resources.push(stack.pop_all())
    except BlockingIOError as error:
        raise OSError(f"{path}: another process is adding to this index; try again when it has finished") from error
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(f"{path}: cannot be written ({os.strerror(error.errno).lower()})") from error
    if not library.fits(model):
        library.close()
        raise ValueError(f"{path}: was made with other weights ({library.model}); replace it with --force")
    library._remove_unused()
    return library


def _own_files(path: Path) -> list[Path]:
    """The files of a library in its folder, those of an interrupted save included."""
    return [file for pattern in (f"{ROWS}*", "vectors-*.usearch", ".vectors-*") for file in path.glob(pattern)]


def _refuse_file(path: Path) -> None:
    if path.is_file():
        raise ValueError(
            f"{path}: is a file, but an index is a folder; one of version 0.1 has to be built again: delete it and run "
            "qec index"
        )
