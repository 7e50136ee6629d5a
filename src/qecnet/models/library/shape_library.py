"""A library of shapes that are searched by descriptor: a folder that one process adds to and many read."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from qecnet.algebra import canonicalize, conjugate, multiply
from qecnet.models.answer import Answer, Failure
from qecnet.models.library.catalogue import Catalogue
from qecnet.models.library.changes import find_changes, missing_files, missing_stamp
from qecnet.models.library.graph import Graph
from qecnet.models.library.ranking import Ranking
from qecnet.models.library.records import About, Changes, Hashed, Stamp, read_stamp
from qecnet.models.model import Model, hash_model

_SECONDS = 1.0
"""Time between two commits: a process that is killed loses no more work than this."""


class Neighbour(NamedTuple):
    """A shape of a library that is similar to a query.

    Attributes:
        file: its path, relative to the folder of the library.
        label: its class.
        confidence: in that class, 0 to 1.
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

    Args:
        path: its folder.
        rows: its database.

    Attributes:
        path: its folder.
        model: the name of the model that it was made with.
        classes: of that model.
    """

    def __init__(self, path: Path, rows: Catalogue) -> None:
        self.path = path
        self.model, self.classes = rows.about.model, rows.about.classes
        self._rows = rows
        self._graph = Graph(path, rows)
        self._ranking = Ranking(rows, self._graph)
        self._resources = ExitStack()
        self._resources.callback(rows.close)
        self._resources.callback(self._graph.close)

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its files and let other processes add to it."""
        self._resources.close()

    def __len__(self) -> int:
        return self._rows.count()

    @property
    def finished(self) -> bool:
        """Whether all files of the last `update` have been indexed or have failed."""
        return self._rows.finished

    def fits(self, model: Model) -> bool:
        """Check whether the library was made with a model.

        Args:
            model: the model, under any name.

        Returns:
            True if it was.
        """
        return self._rows.about.fits(describe_model(model))

    def nearest(
        self, query: Answer, count: int = 10, *, label: str | None = None, min_confidence: float = 0.0
    ) -> list[Neighbour]:
        """Find the most similar shapes.

        Args:
            query: what the library's model predicts for a shape.
            count: the number of shapes to find.
            label: find only shapes of this class.
            min_confidence: find only shapes with at least this confidence, 0 to 1.

        Returns:
            At most `count` shapes, the most similar first. Rotations compare the poses for the neighbour's class.

        Raises:
            ValueError: for a class that the model does not know, and for a damaged library.
        """
        if label is not None and label not in self.classes:
            raise ValueError(f"{label}: is not a class of {self.path}; it has {', '.join(self.classes)}")
        found = []
        descriptor = query.descriptor.numpy().astype(np.float32)
        for row, similarity in self._ranking.find(descriptor, count, label, min_confidence):
            pose = query.poses[self.classes.index(row.label)]
            rotation = canonicalize(multiply(pose, conjugate(torch.from_numpy(row.pose))))
            found.append(Neighbour(row.path, row.label, row.confidence, similarity, rotation))
        return found

    def update(
        self,
        folder: Path,
        files: Iterable[Path],
        fail: Callable[[Failure], None] = lambda failure: None,
        *,
        retry: bool = False,
        fail_before: Callable[[Failure], None] = lambda failure: None,
        show: Callable[[int, int], None] = lambda done, total: None,
    ) -> Changes:
        """Remove and rename the rows of removed and renamed files, and find the files to index, see `missing`.

        Args:
            folder: the folder that paths are relative to.
            files: all files that the library is to have.
            fail: called for each file that is missing or not below the folder.
            retry: whether to index files again that failed before and have not changed.
            fail_before: called for each of these files with the reason, unless they are indexed again.
            show: called with the numbers of files that have been, and have to be, compared with rows by their content.

        Returns:
            How many files have changed, and how.

        Raises:
            ValueError: if none of the files exists, but the library has shapes, which it keeps; one sentence.
        """
        return find_changes(self._rows, folder, files, fail, retry=retry, fail_before=fail_before, show=show)

    def missing(self, folder: Path) -> Iterator[Path]:
        """List the files that the last `update` found to be new or changed.

        Args:
            folder: the folder that paths are relative to.

        Returns:
            Their paths, in order.
        """
        return (folder / name for name in missing_files(self._rows))

    def add(self, entries: Iterable[tuple[str, Stamp, Answer | Failure]]) -> None:
        """Add shapes and failures in one transaction: if the process is killed, all of them are kept, or none.

        Args:
            entries: each file's path relative to the folder of the library, its stamp, and what the model predicts for
                it. A shape of the same path is replaced.
        """
        with self._rows.transaction():
            for entry in entries:
                self._rows.add(*entry)
        self._graph.update(finished=False)

    def extend(self, folder: Path, results: Iterable[Sequence[Hashed]]) -> Generator[Answer | Failure]:
        """Add the files of `missing`.

        They are added every second, at the end, and when the generator is closed or interrupted.

        Args:
            folder: the folder that paths are relative to.
            results: what the model predicts for these files, in any order, some at a time as they are done, see
                `hash_answer`.

        Yields:
            The answer for each file, or a `Failure`, which is kept, too.
        """
        waiting: list[tuple[str, Stamp, Answer | Failure]] = []
        added = monotonic()

        def add() -> None:
            nonlocal added, waiting
            entries, waiting = waiting, []  # those that cannot be added, on a full disk, are not tried a second time
            if entries:
                self.add(entries)
            added = monotonic()

        try:
            for some in results:
                for hashed in some:
                    waiting.append(self._entry(folder, hashed))
                    yield hashed.result
                if monotonic() - added > _SECONDS:
                    add()
        finally:
            add()
        self.finish()

    def _entry(self, folder: Path, hashed: Hashed) -> tuple[str, Stamp, Answer | Failure]:
        """The result for a missing file as `add` takes it, with the stamp that the file had in `update`.

        A file that has changed since then has no digest: it may not be what was predicted.
        """
        name = Path(hashed.result.name).relative_to(folder).as_posix()
        stamp = missing_stamp(self._rows, name)
        try:
            is_same = read_stamp(folder / name) == stamp
        except OSError:
            is_same = False
        return name, stamp._replace(digest=hashed.digest if is_same else b""), hashed.result

    def finish(self) -> None:
        """Record that all missing files are done, bring the graph up to date, and release free disk space."""
        with self._rows.transaction():
            self._rows.finish()
        self._graph.update(finished=True)
        self._rows.shrink()

    def absorb(self, other: Library) -> None:
        """Add all shapes and failures of another library.

        Args:
            other: made with the same model.
        """
        last = 0
        while entries := [*other._rows.entries(last)]:
            with self._rows.transaction():
                for _, row, stamp, descriptor in entries:
                    self._rows.add_row(row, stamp, descriptor)
            last = entries[-1][0]
            self._graph.update(finished=False)
        with self._rows.transaction():
            for failure in other._rows.failures():
                self._rows.add_failure(*failure)


def describe_model(model: Model) -> About:
    """What a library records about its model; confidences depend on the temperatures, too."""
    found = model.calibration
    of_classes = found.temperature, found.temperature_slope
    of_ups = "up", found.orientation_temperature, found.orientation_temperature_slope
    fitted = "-".join(map(str, of_classes if len(model.classes) > 1 else of_ups))
    return About(model.name, f"{hash_model(model)}-{fitted}", model.classes, model.width)
