"""A library of shapes that are searched by descriptor: a folder that one process adds to and many read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from qecnet.algebra import canonicalize, conjugate, multiply
from qecnet.files import alone_in
from qecnet.models.answer import Answer, Failure
from qecnet.models.hashing import hash_model
from qecnet.models.library.catalogue import ROWS, Catalogue
from qecnet.models.library.codes import Codes
from qecnet.models.library.records import About, Changes, Floats, Keys, Stamp
from qecnet.models.library.update import find_changes, missing_files, record_result
from qecnet.models.library.vectors import Vectors, write_vectors
from qecnet.models.model import Model
from qecnet.schema import first_line

EXACT_ROWS = 100_000
"""A library of fewer shapes has no graph: every descriptor is compared."""
_UNSEALED_ROWS = 10_000
"""A library with a graph may have this many descriptors that are not in it."""
_MOST_STALE = 0.25
"""The share of removed shapes in a graph from which it is built anew."""
_FITTED_ROWS = 20_000
"""Descriptors that the codes of a graph are fitted to."""
_WIDER = (16, 128)
"""How many times more shapes the graph is asked for than are wanted, and again if too few are left: its distances are
coarse, and some shapes may be removed or filtered out."""


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
        self._recent: tuple[Keys, Floats]
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
        return self._rows.about.fits(describe_model(model))

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
            descriptor /= np.linalg.norm(descriptor)
            parts = [self._compare_recent(descriptor, label, min_confidence)]
            if self._vectors is not None:
                parts.append(self._search_graph(self._vectors, descriptor, count, label, min_confidence))
            keys, similarity = _best(parts, count)
            rows = [self._rows.row(int(key)) for key in keys]
        found = []
        for row, value in zip(rows, similarity.tolist(), strict=True):
            pose = query.poses[self.classes.index(row.label)]
            rotation = canonicalize(multiply(pose, conjugate(torch.from_numpy(row.pose))))
            found.append(Neighbour(row.path, row.label, row.confidence, min(value, 1.0), rotation))
        return found

    def update(
        self,
        folder: Path,
        files: Iterable[Path],
        fail: Callable[[Failure], None] = lambda failure: None,
        *,
        retry: bool = False,
    ) -> Changes:
        """Remove and rename the shapes whose files were, and find those that have to be indexed, see `missing`.

        Args:
            folder: the folder that paths are relative to.
            files: all files that the library is to have.
            fail: told of each file that is missing or not below the folder.
            retry: whether to index files again that failed before and have not changed.
        """
        with self._rows.transaction():
            return find_changes(self._rows, folder, files, fail, retry=retry)

    def missing(self, folder: Path) -> Iterator[Path]:
        """The files that the last `update` found to be new or changed, in order."""
        return (folder / name for name in missing_files(self._rows))

    def add(self, entries: Iterable[tuple[str, Stamp, Answer]]) -> None:
        """Add shapes in one transaction: if the process is killed, all of them are kept, or none.

        Args:
            entries: each file's path relative to the folder of the library, its stamp, and what the model predicts for
                it. A shape of the same path is replaced.
        """
        with self._rows.transaction():
            self._rows.add(entries)
        self._seal(EXACT_ROWS)

    def add_results(self, folder: Path, results: Sequence[Answer | Failure]) -> None:
        """Add what the model gave for files of `missing`, failures included, in one transaction."""
        with self._rows.transaction():
            for result in results:
                record_result(self._rows, folder, result)
        self._seal(EXACT_ROWS)

    def finish(self) -> None:
        """Say that all missing files are done, bring the graph up to date, and give free space back to the disk."""
        with self._rows.transaction():
            self._rows.finish()
        self.seal()
        self._rows.shrink()

    def absorb(self, other: Library) -> None:
        """Add all shapes and failures of a library that was made with the same model."""
        last = 0
        while entries := [*other._rows.entries(last)]:
            with self._rows.transaction():
                for _, row, stamp, descriptor in entries:
                    self._rows.add_row(row, stamp, descriptor)
            last = entries[-1][0]
            self._seal(EXACT_ROWS)
        with self._rows.transaction():
            for failure in other._rows.failures():
                self._rows.add_failure(*failure)

    def seal(self) -> None:
        """Put the descriptors into the graph if they are too many to compare all; takes about a second per 5,000."""
        self._seal(_UNSEALED_ROWS)

    def _seal(self, enough: int) -> None:
        """`seal`, once so many descriptors are not in the graph; a first graph takes `EXACT_ROWS`."""
        with self._rows.transaction("DEFERRED"):
            generation = self._rows.generation
            enough = enough if generation else EXACT_ROWS
            try:
                self._vectors = self._open_vectors()
            except ValueError:  # it is damaged, and built again
                self._vectors, enough = None, 1
            graph = self._vectors
            last = 0 if graph is None else graph.last
            new = self._rows.count(after=last)
            if new < enough:
                return
            live = self._rows.count() - new
            if graph is not None and graph.count - live > _MOST_STALE * graph.count:
                graph, last = None, 0
            codes = Codes.fit(self._sample()) if graph is None else graph.codes
            write_vectors(self._vectors_path(generation + 1), codes, self._rows.blocks(after=last), graph)
        with self._rows.transaction():
            self._rows.seal(generation + 1, codes.to_bytes())
        self._remove_unused()

    def _sample(self) -> Floats:
        """Some descriptors from all of the library. → (N, D)"""
        step = max(1, self._rows.count() // _FITTED_ROWS)
        return np.concatenate([descriptors[::step] for _, descriptors in self._rows.blocks()])

    def _compare_recent(self, descriptor: Floats, label: str | None, confidence: float) -> tuple[Keys, Floats]:
        """The ids and similarities of the shapes that match and are not in the graph."""
        keys, descriptors = self._recent
        similarity = descriptors @ descriptor
        if label is None and confidence <= 0:
            return keys, similarity
        last = 0 if self._vectors is None else self._vectors.last
        kept = np.isin(keys, self._rows.matching(label, confidence, last))
        return keys[kept], similarity[kept]

    def _search_graph(
        self, graph: Vectors, descriptor: Floats, count: int, label: str | None, confidence: float
    ) -> tuple[Keys, Floats]:
        """The ids and similarities of shapes that match, are in the graph, and include the most similar ones."""
        for wider in _WIDER:
            if wider * count < graph.count:
                keys, descriptors = self._rows.take(graph.search(descriptor, wider * count), label, confidence)
                if len(keys) >= count:
                    return keys, _cosines(descriptors, descriptor)
        blocks = self._rows.blocks(label, confidence, up_to=graph.last)
        found = [(keys, _cosines(descriptors, descriptor)) for keys, descriptors in blocks]
        return _best(found, count) if found else (np.empty(0, np.int64), np.empty(0, np.float32))

    def _refresh(self) -> None:
        """Read what another process may have changed. Within a transaction."""
        if self._read == self._rows.version:
            return
        self._vectors = self._open_vectors()
        last = 0 if self._vectors is None else self._vectors.last
        self._recent = self._read_recent(last)
        self._read = self._rows.version

    def _read_recent(self, last: int) -> tuple[Keys, Floats]:
        """The ids (P,) and descriptors (P, D), float32, of the shapes that are not in the graph."""
        count, start = self._rows.count(after=last), 0
        keys, descriptors = np.empty(count, np.int64), np.empty((count, self._rows.about.width), np.float32)
        for some, values in self._rows.blocks(after=last):
            end = start + len(some)
            keys[start:end] = some
            descriptors[start:end] = values / np.linalg.norm(values, axis=-1, keepdims=True)
            start = end
        return keys[:start], descriptors[:start]

    def _open_vectors(self) -> Vectors | None:
        """The graph as it is now. Within a transaction."""
        generation = self._rows.generation
        if not generation:
            return None
        path = self._vectors_path(generation)
        if self._vectors is not None and self._vectors.path == path:
            return self._vectors
        try:
            codes = Codes.from_bytes(self._rows.codes, self._rows.about.width)
        except ValueError as error:
            raise self._rows.damage(first_line(error)) from error
        return Vectors(path, codes)

    def _vectors_path(self, generation: int) -> Path:
        return self.path / f"vectors-{generation}.usearch"

    def _remove_unused(self) -> None:
        """Remove vectors files that are not, or not yet, the library's; one that is still open goes another time."""
        used = self._vectors_path(self._rows.generation).name
        for path in _own_files(self.path):
            if path.name != used and not path.name.startswith(ROWS):
                with suppress(OSError):
                    path.unlink()


def _cosines(descriptors: Floats, descriptor: Floats) -> Floats:
    """The similarities of (N, D) and (D,), which has length 1. → (N,)"""
    return np.asarray(descriptors @ descriptor / np.linalg.norm(descriptors, axis=-1))


def _best(parts: Sequence[tuple[Keys, Floats]], count: int) -> tuple[Keys, Floats]:
    """The ids of the largest similarities, in order, and these; of equal ones, the smaller id first."""
    keys = np.concatenate([keys for keys, _ in parts])
    similarity = np.concatenate([similarity for _, similarity in parts])
    if len(keys) > count:
        kept = similarity >= np.partition(similarity, -count)[-count]
        keys, similarity = keys[kept], similarity[kept]
    order = np.lexsort((keys, -similarity))[:count]
    return keys[order], similarity[order]


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
    return _edit(path, describe_model(model), replace)


def merge_libraries(path: Path, parts: Sequence[Path], *, replace: bool = False, partial: bool = False) -> None:
    """Join libraries of one model, such as those of shards, into a new one.

    Args:
        path: the folder of the new one.
        parts: their folders. Of shapes with the same path, the last one is kept.
        replace: whether to begin with an empty library where there is one already.
        partial: whether to take libraries that are not finished.

    Raises:
        ValueError: one of them is not finished, damaged or of another model; one sentence.
        OSError: the new one cannot be written; one sentence.
    """
    with read_library(parts[0]) as first:
        about = first._rows.about
    for part in parts:
        with read_library(part) as library:
            if not library._rows.about.fits(about):
                raise ValueError(f"{part}: was made with other weights than {parts[0]}; merge shards of one run")
            if not library._rows.finished and not partial:
                raise ValueError(f"{part}: is not finished; run this shard again, or merge with --partial")
    with _edit(path, about, replace) as whole:
        for part in parts:
            with read_library(part) as library:
                whole.absorb(library)
        whole.finish()


def _edit(path: Path, about: About, replace: bool) -> Library:
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
            library = Library(path, Catalogue(path, about))
            library._resources.push(stack.pop_all())
    except BlockingIOError as error:
        raise OSError(f"{path}: another process is adding to this index; try again when it has finished") from error
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(f"{path}: cannot be written ({os.strerror(error.errno).lower()})") from error
    if not library._rows.about.fits(about):
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
