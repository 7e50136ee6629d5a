"""The graph of a large library: which file it is in, and when it is built, extended or dropped."""

from contextlib import suppress
from pathlib import Path

import numpy as np

from qecnet.models.library.catalogue import Catalogue
from qecnet.models.library.database import ROWS
from qecnet.models.library.records import Floats
from qecnet.models.library.vectors import Codes, Vectors, write_vectors
from qecnet.schema import first_line

EXACT_ROWS = 100_000
"""A library of fewer shapes has no graph: every descriptor is compared."""
_UNSEALED_ROWS = 10_000
"""A library with a graph may have this many descriptors that are not in it."""
_MOST_STALE = 0.25
"""The share of removed shapes in a graph from which it is built again, or dropped."""
_FITTED_ROWS = 20_000
"""Descriptors that the codes of a graph are fitted to."""


class Graph:
    """The vectors file that the rows of a library name, if they name one.

    Attributes:
        vectors: that file, open; None while there is none. `refresh` opens it.
    """

    def __init__(self, folder: Path, rows: Catalogue) -> None:
        self._folder, self._rows = folder, rows
        self.vectors: Vectors | None = None

    @property
    def last(self) -> int:
        """The largest id in it; 0 without a file."""
        return 0 if self.vectors is None else self.vectors.last

    def refresh(self) -> None:
        """Open the file that the rows name now. Within a transaction."""
        generation = self._rows.generation
        path = self._path(generation)
        if generation and self.vectors is not None and self.vectors.path == path:
            return
        self.vectors = None
        if not generation or not (data := self._rows.codes):
            return
        try:
            codes = Codes.from_bytes(data, self._rows.about.width)
        except ValueError as error:
            raise self._rows.damage(first_line(error)) from error
        self.vectors = Vectors(path, codes)

    def update(self, *, finished: bool) -> None:
        """Write a file if too many shapes are not in the graph, or many are stale; drop one that is not needed.

        While shapes are added, too many are those that a search cannot compare one by one. Once that is finished, the
        graph is brought up to date, which takes about a second per 5,000 new shapes.
        """
        enough = _UNSEALED_ROWS if finished else EXACT_ROWS
        with self._rows.transaction("DEFERRED"):
            generation, obsolete = self._rows.generation, False
            try:
                self.refresh()
            except ValueError:  # it is damaged
                obsolete = True
            graph = self.vectors
            new = self._rows.count(after=self.last)
            if not finished and not obsolete and new < enough:
                return
            total = self._rows.count()
            if graph is not None and graph.count - (total - new) > _MOST_STALE * graph.count:
                obsolete, graph = True, None
            needed = total >= EXACT_ROWS if graph is None else new >= enough
            if not needed and not obsolete:
                return
            data = b""
            if needed:
                codes = Codes.fit(self._sample()) if graph is None else graph.codes
                after = 0 if graph is None else graph.last
                write_vectors(self._path(generation + 1), codes, self._rows.blocks(after=after), graph)
                data = codes.to_bytes()
        with self._rows.transaction():
            self._rows.seal(generation + 1, data)
        self.remove_unused()

    def _sample(self) -> Floats:
        """Some descriptors from all of the library. → (N, D)"""
        step = max(1, self._rows.count() // _FITTED_ROWS)
        return np.concatenate([descriptors[::step] for _, descriptors in self._rows.blocks()])

    def _path(self, generation: int) -> Path:
        return self._folder / f"vectors-{generation}.usearch"

    def remove_unused(self) -> None:
        """Remove vectors files that the library does not use; one that is still open is removed later."""
        used = self._path(self._rows.generation).name
        for path in own_files(self._folder):
            if path.name != used and not path.name.startswith(ROWS):
                with suppress(OSError):
                    path.unlink()

    def close(self) -> None:
        """Unmap the file."""
        if self.vectors is not None:
            self.vectors.close()


def own_files(folder: Path) -> list[Path]:
    """The files of a library in its folder, those of an interrupted save included."""
    return [file for pattern in (f"{ROWS}*", "vectors-*.usearch", ".vectors-*") for file in folder.glob(pattern)]
