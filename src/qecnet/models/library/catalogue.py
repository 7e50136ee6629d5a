"""The rows of a library in SQLite: paths, stamps, classes, confidences, poses and descriptors.

Files are untrusted: every value that is read is checked.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from qecnet.models.answer import Answer, Failure
from qecnet.models.library.database import Database
from qecnet.models.library.records import UNIT, Floats, Keys, ShapeRow, Stamp, check_path
from qecnet.schema import first_line

_BLOCK = 4096
"""Rows that are read at once."""


class Catalogue(Database):
    """The shapes of a library, their descriptors, and the files that failed."""

    def count(self, after: int = 0) -> int:
        """Count the shapes whose id is larger."""
        with self._sentences():
            return int(self._db.execute("SELECT count(*) FROM shapes WHERE id > ?", (after,)).fetchone()[0])

    def add(self, path: str, stamp: Stamp, result: Answer | Failure) -> None:
        """Add a shape or a failure, or replace the one that has the same path. Within a transaction."""
        if isinstance(result, Failure):
            self.remove(path)
            self.add_failure(path, stamp, result.error)
        else:
            row = ShapeRow(path, result.label, result.confidence, result.pose.numpy())
            self.add_row(row, stamp, result.descriptor.numpy().astype("<f2"))

    def add_row(self, row: ShapeRow, stamp: Stamp, descriptor: Floats) -> None:
        """Add one shape; its descriptor is float16. Within a transaction."""
        check_path(row.path)
        self.remove(row.path)
        cursor = self._db.execute(
            "INSERT INTO shapes (path, size, modified, digest, class, confidence, w, x, y, z) "
            "VALUES (CAST(? AS TEXT), ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (encode_path(row.path), *stamp, row.label, row.confidence, *row.pose.tolist()),
        )
        self._db.execute("INSERT INTO descriptors VALUES (?, ?)", (cursor.lastrowid, descriptor.tobytes()))

    def add_failure(self, path: str, stamp: Stamp, error: str) -> None:
        """Record why a file cannot be indexed. Within a transaction."""
        row = (encode_path(path), *stamp[:2], error.encode("utf-8", "surrogateescape"))
        self._db.execute("REPLACE INTO failures VALUES (CAST(? AS TEXT), ?, ?, CAST(? AS TEXT))", row)

    def remove(self, path: str) -> None:
        """Remove a shape or a failure by path. Within a transaction."""
        name = (encode_path(path),)
        same = "FROM shapes WHERE path = CAST(? AS TEXT)"
        self._db.execute(f"DELETE FROM descriptors WHERE id IN (SELECT id {same})", name)
        self._db.execute(f"DELETE {same}", name)
        self._db.execute("DELETE FROM failures WHERE path = CAST(? AS TEXT)", name)

    def entries(self, after: int) -> Iterator[tuple[int, ShapeRow, Stamp, Floats]]:
        """Some of the shapes with a larger id, in order: ids, rows, stamps, and descriptors (D,), float16."""
        query = "SELECT id, size, modified, digest FROM shapes WHERE id > ? ORDER BY id LIMIT ?"
        found = self.execute(query, (after, _BLOCK)).fetchall()
        keys, descriptors = self.take(np.array([key for key, *_ in found], np.int64))
        for key, (_, *stamp), descriptor in zip(keys.tolist(), found, descriptors, strict=True):
            yield key, self.row(key), Stamp(*stamp), descriptor.astype("<f2")

    def failures(self) -> Iterator[tuple[str, Stamp, str]]:
        """Paths and stamps of the files that failed, and why."""
        for path, size, modified, error in self.execute("SELECT path, size, modified, error FROM failures"):
            yield str(path), Stamp(size, modified), str(error)

    def rename(self, old: str, new: str, stamp: Stamp) -> None:
        """Give a shape another path and stamp. Within a transaction."""
        check_path(new)
        self._db.execute(
            "UPDATE shapes SET path = CAST(? AS TEXT), size = ?, modified = ?, digest = ? WHERE path = CAST(? AS TEXT)",
            (encode_path(new), *stamp, encode_path(old)),
        )

    def blocks(
        self, label: str | None = None, confidence: float = 0.0, *, after: int = 0, up_to: int = 2**63 - 1
    ) -> Iterator[tuple[Keys, Floats]]:
        """The ids (M,) and descriptors (M, D), float32, of shapes that match, some thousands at a time.

        Without a filter they are in the order of ids.
        """
        where, values = _condition(label, confidence)
        order = "ORDER BY id" if label is None else ""
        query = f"{_DESCRIPTORS} WHERE {where} AND id > ? AND id <= ? {order}"
        cursor = self._db.execute(query, (*values, after, up_to))
        while rows := cursor.fetchmany(_BLOCK):
            yield self._unpack(rows)

    def take(self, keys: Keys, label: str | None = None, confidence: float = 0.0) -> tuple[Keys, Floats]:
        """`blocks` for those ids whose shapes still exist and match, in the given order."""
        where, values = _condition(label, confidence)
        query = f"{_DESCRIPTORS} WHERE id = ? AND {where}"
        rows = (self._db.execute(query, (key, *values)).fetchone() for key in keys.tolist())
        return self._unpack([row for row in rows if row])

    def matching(self, label: str | None, confidence: float, after: int) -> Keys:
        """The ids of matching shapes that are larger than one, (M,)."""
        where, values = _condition(label, confidence)
        cursor = self._db.execute(f"SELECT id FROM shapes WHERE {where} AND id > ?", (*values, after))
        return np.fromiter((key for (key,) in cursor), np.int64)

    def _unpack(self, rows: Sequence[tuple[int, Any]]) -> tuple[Keys, Floats]:
        width = self.about.width
        for _, blob in rows:
            if blob is None:
                raise self.damage("a shape has no descriptor")
            if not isinstance(blob, bytes) or len(blob) != 2 * width:
                raise self.damage("a descriptor has the wrong size")
        keys = np.array([key for key, _ in rows], np.int64)
        values = np.frombuffer(b"".join(blob for _, blob in rows), "<f2").reshape(len(rows), width).astype(np.float32)
        if not (np.abs(np.linalg.norm(values, axis=-1) - 1) <= UNIT).all():
            raise self.damage("a descriptor is not of length 1")
        return keys, values

    def row(self, key: int) -> ShapeRow:
        """One shape."""
        query = "SELECT path, class, confidence, w, x, y, z FROM shapes WHERE id = ?"
        found = self._db.execute(query, (key,)).fetchone()
        if found is None:
            raise self.damage("a descriptor belongs to no shape")
        path, label, confidence, *pose = found
        try:
            check_path(path)
        except ValueError as error:
            raise self.damage(first_line(error)) from error
        if label not in self.about.classes:
            raise self.damage("a shape has a class that the model does not know")
        if not isinstance(confidence, float) or not 0 <= confidence <= 1 + UNIT:
            raise self.damage("a confidence is not between 0 and 1")
        if any(not isinstance(value, float) for value in pose) or not abs(math.hypot(*pose) - 1) <= UNIT:
            raise self.damage("a pose is not of length 1")
        return ShapeRow(path, label, confidence, np.array(pose))


_DESCRIPTORS = "SELECT shapes.id AS id, descriptor FROM shapes LEFT JOIN descriptors USING (id)"


def encode_path(path: str) -> bytes:
    """A path as SQLite's text; names that are not UTF-8 are possible on Linux."""
    return path.encode("utf-8", "surrogateescape")


def _condition(label: str | None, confidence: float) -> tuple[str, tuple[Any, ...]]:
    if label is None:
        return "confidence >= ?", (confidence,)
    return "class = ? AND confidence >= ?", (label, confidence)
