"""The rows of a library in SQLite: paths, stamps, classes, confidences and poses, and descriptors not yet in the graph.

A file may come from anybody: its schema has to be exactly ours, so that it brings no trigger or view, and every value
that is read is checked.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qecnet.models.answer import Answer
from qecnet.schema import check_names, decode, first_line, parse_object

ROWS = "rows.sqlite"
Floats = NDArray[np.floating[Any]]
Keys = NDArray[np.int64]

_VERSION = 2
"""Of the format; version 0.1 of qecnet wrote one safetensors file, without a number."""
_SCHEMA = """
CREATE TABLE about (version INTEGER NOT NULL, text TEXT NOT NULL, generation INTEGER NOT NULL);
CREATE TABLE shapes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, modified INTEGER NOT NULL,
    digest BLOB NOT NULL, class TEXT NOT NULL, confidence REAL NOT NULL,
    w REAL NOT NULL, x REAL NOT NULL, y REAL NOT NULL, z REAL NOT NULL);
CREATE INDEX classes ON shapes (class, confidence);
CREATE TABLE pending (id INTEGER PRIMARY KEY, descriptor BLOB NOT NULL);
"""
_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")
"""The end of a journal that names another file for SQLite to delete; one database alone never writes it."""
_WAITS = 60.0
"""Seconds to wait for another process's transaction."""
_BLOCK = 4096
"""Rows that are read at once."""
_UNIT = 1e-3
"""How far the length of a descriptor or a pose may be from 1."""
_SYSTEM = ("full", "readonly", "unable to open", "locked", "permission")
"""What SQLite says when the disk or its permissions are at fault, not the file."""


class Stamp(NamedTuple):
    """What identifies a version of a file: its size, its time of change in nanoseconds, and a hash of its content."""

    size: int
    modified: int
    digest: bytes = b""


class Row(NamedTuple):
    """A shape's path relative to the library's folder, its class and confidence, and its pose, WXYZ."""

    path: str
    label: str
    confidence: float
    pose: Floats


class Changes(NamedTuple):
    """What has happened to the files of a library: `missing` are new or changed and have to be indexed."""

    missing: dict[str, Stamp]
    unchanged: int
    renamed: int
    removed: int


@dataclass(frozen=True)
class About:
    """What a library was made with: the model's name, a hash of it, its classes, the width of its descriptors."""

    model: str
    key: str
    classes: tuple[str, ...]
    width: int

    def __post_init__(self) -> None:
        check_names("classes", self.classes)
        check_names("model", [self.model])
        if not 0 < self.width <= 65_536:
            raise ValueError("width is not a number of values that a descriptor has")


class Catalogue:
    """An open database of rows. `generation` is the number of its vectors file, 0 if it has none yet."""

    def __init__(self, folder: Path, about: About | None = None) -> None:
        """Open the database; with `about`, for writing, and create it if there is none."""
        self.path = folder / ROWS
        self._refuse_foreign_journal()
        with self._sentences():
            source = f"{self.path.absolute().as_uri()}?mode={'rw' if about is None else 'rwc'}"
            self._db = sqlite3.connect(source, uri=True, timeout=_WAITS, isolation_level=None)
            self._db.text_factory = lambda data: data.decode("utf-8", "surrogateescape")  # as file names have it
            try:
                self._start(about)
            except BaseException:
                self._db.close()
                raise

    def _start(self, about: About | None) -> None:
        self._db.execute("PRAGMA trusted_schema = OFF")
        self._db.execute("PRAGMA cell_size_check = ON")
        if about is None:
            self._db.execute("PRAGMA query_only = ON")
        elif not self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            with self.transaction():
                for statement in _statements():
                    self._db.execute(statement)
                self._db.execute("INSERT INTO about VALUES (?, ?, 0)", (_VERSION, json.dumps(asdict(about))))
        if _schema(self._db) != _own_schema():
            raise self.damage("its tables are not those of an index")
        rows = self._db.execute("SELECT version, text FROM about LIMIT 2").fetchall()
        if len(rows) != 1 or not isinstance(rows[0][1], str):
            raise self.damage("it does not say what it was made with")
        if rows[0][0] != _VERSION:
            raise ValueError(f"{self.path}: is of another version of qecnet; build it again with qec index --force")
        self.about = decode(parse_object(rows[0][1], self.path), About, self.path)

    def close(self) -> None:
        self._db.close()

    def damage(self, reason: str) -> ValueError:
        """The error for a database whose content makes no sense."""
        return ValueError(f"{self.path}: is damaged ({reason}); build it again with qec index --force")

    @contextmanager
    def transaction(self, kind: str = "IMMEDIATE") -> Iterator[None]:
        """Run a block as one transaction: all of it is kept, or nothing."""
        with self._sentences():
            self._db.execute(f"BEGIN {kind}")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @property
    def generation(self) -> int:
        (found,) = self._db.execute("SELECT generation FROM about").fetchone()
        if not isinstance(found, int) or found < 0:
            raise self.damage("the number of its vectors file is negative")
        return found

    @property
    def version(self) -> tuple[int, int]:
        """Changes whenever this or another process has changed the database."""
        return self._db.execute("PRAGMA data_version").fetchone()[0], self._db.total_changes

    def count(self) -> int:
        """Count the shapes."""
        with self._sentences():
            return int(self._db.execute("SELECT count(*) FROM shapes").fetchone()[0])

    def count_pending(self) -> int:
        """Count the descriptors that are not in the graph."""
        with self._sentences():
            return int(self._db.execute("SELECT count(*) FROM pending").fetchone()[0])

    def add(self, entries: Iterable[tuple[str, Stamp, Answer]]) -> None:
        """Add shapes, or replace those that have the same path. Within a transaction."""
        for path, stamp, answer in entries:
            check_path(path)
            self.remove([path])
            row = (_encode(path), *stamp, answer.label, answer.confidence, *answer.pose.tolist())
            cursor = self._db.execute(
                "INSERT INTO shapes (path, size, modified, digest, class, confidence, w, x, y, z) "
                "VALUES (CAST(? AS TEXT), ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )
            blob = answer.descriptor.numpy().astype("<f2").tobytes()
            self._db.execute("INSERT INTO pending VALUES (?, ?)", (cursor.lastrowid, blob))

    def remove(self, paths: Iterable[str]) -> None:
        """Remove shapes by path. Within a transaction."""
        for path in paths:
            name = (_encode(path),)
            same = "FROM shapes WHERE path = CAST(? AS TEXT)"
            self._db.execute(f"DELETE FROM pending WHERE id IN (SELECT id {same})", name)
            self._db.execute(f"DELETE {same}", name)

    def stamp(self, path: str) -> Stamp | None:
        """The stamp of the file that was indexed under this path."""
        query = "SELECT size, modified, digest FROM shapes WHERE path = CAST(? AS TEXT)"
        row = self._db.execute(query, (_encode(path),)).fetchone()
        return None if row is None else Stamp(*row)

    def rename(self, old: str, new: str, stamp: Stamp) -> None:
        """Give a shape another path and stamp. Within a transaction."""
        check_path(new)
        self._db.execute(
            "UPDATE shapes SET path = CAST(? AS TEXT), size = ?, modified = ?, digest = ? WHERE path = CAST(? AS TEXT)",
            (_encode(new), *stamp, _encode(old)),
        )

    def stamps(self) -> Iterator[tuple[str, Stamp]]:
        """Each path and its stamp."""
        for path, *stamp in self._db.execute("SELECT path, size, modified, digest FROM shapes"):
            if not isinstance(path, str):
                raise self.damage("a path is not text")
            yield path, Stamp(*stamp)

    def pending(self) -> tuple[Keys, Floats]:
        """The ids, (P,), ascending, and descriptors, (P, D), float16, that are not in the graph."""
        keys, parts, width = list[int](), [np.empty((0, self.about.width), "<f2")], 2 * self.about.width
        cursor = self._db.execute("SELECT id, descriptor FROM pending ORDER BY id")
        while rows := cursor.fetchmany(_BLOCK):
            if any(not isinstance(blob, bytes) or len(blob) != width for _, blob in rows):
                raise self.damage("a descriptor has another width")
            part = np.frombuffer(b"".join(blob for _, blob in rows), "<f2").reshape(len(rows), self.about.width)
            if not is_unit(part):
                raise self.damage("a descriptor is not of length 1")
            keys += [key for key, _ in rows]
            parts.append(part)
        return np.array(keys, np.int64), np.concatenate(parts)

    def matching(self, label: str | None, confidence: float) -> Keys:
        """The ids of the shapes of a class with at least this confidence, (M,)."""
        where, values = _condition(label, confidence)
        cursor = self._db.execute(f"SELECT id FROM shapes WHERE {where}", values)
        return np.fromiter((key for (key,) in cursor), np.int64)

    def keep_matching(self, keys: Keys, label: str | None, confidence: float) -> Keys:
        """Those of the ids, in order, whose shapes exist still and match, (M,)."""
        where, values = _condition(label, confidence)
        query = f"SELECT 1 FROM shapes WHERE id = ? AND {where}"
        kept = [key for key in keys.tolist() if self._db.execute(query, (key, *values)).fetchone()]
        return np.array(kept, np.int64)

    def row(self, key: int) -> Row:
        """One shape."""
        query = "SELECT path, class, confidence, w, x, y, z FROM shapes WHERE id = ?"
        found = self._db.execute(query, (key,)).fetchone()
        if found is None:
            raise self.damage("a descriptor has no shape")
        path, label, confidence, *pose = found
        try:
            check_path(path)
        except ValueError as error:
            raise self.damage(first_line(error)) from error
        if label not in self.about.classes:
            raise self.damage("a shape has a class that the model does not know")
        if not isinstance(confidence, float) or not 0 <= confidence <= 1 + _UNIT:
            raise self.damage("a confidence is not between 0 and 1")
        if any(not isinstance(value, float) for value in pose) or not abs(math.hypot(*pose) - 1) <= _UNIT:
            raise self.damage("a pose is not of length 1")
        return Row(path, label, confidence, np.array(pose))

    def seal(self, generation: int, last: int) -> None:
        """Say that the descriptors up to an id are in the vectors file of this number. Within a transaction."""
        self._db.execute("UPDATE about SET generation = ?", (generation,))
        self._db.execute("DELETE FROM pending WHERE id <= ?", (last,))

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        """Raise errors of SQLite as one sentence that names the file."""
        try:
            yield
        except UnicodeDecodeError as error:  # names of a damaged schema, in SQLite's own messages
            raise self.damage("a name is not UTF-8") from error
        except sqlite3.Error as error:
            reason = first_line(error)
            if any(word in reason for word in _SYSTEM):
                raise OSError(f"{self.path}: cannot be used ({reason}); what was added before is kept") from error
            raise self.damage(reason) from error

    def _refuse_foreign_journal(self) -> None:
        journal = self.path.with_name(f"{ROWS}-journal")
        if journal.is_file() and journal.read_bytes()[-8:] == _SUPER_JOURNAL:
            raise self.damage("its journal names another file")


def check_path(path: str) -> None:
    """Raise a ValueError unless a path leads into the folder that it is relative to."""
    pure = PurePosixPath(path) if isinstance(path, str) else None
    if not path or pure is None or "\0" in path or pure.is_absolute() or ".." in pure.parts:
        raise ValueError("a path does not lead into the folder of the library")


def is_unit(vectors: Floats) -> bool:
    """Whether each row of (..., D) is finite and of length 1."""
    lengths = np.linalg.norm(vectors.astype(np.float32), axis=-1)
    return bool((np.abs(lengths - 1) <= _UNIT).all())


def hash_file(path: Path) -> bytes:
    """A hash of a file's content, by which it is known under another name."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.digest()


def _encode(path: str) -> bytes:
    """A path as SQLite's text; names that are not UTF-8 are possible on Linux."""
    return path.encode("utf-8", "surrogateescape")


def _condition(label: str | None, confidence: float) -> tuple[str, tuple[Any, ...]]:
    if label is None:
        return "confidence >= ?", (confidence,)
    return "class = ? AND confidence >= ?", (label, confidence)


def _statements() -> list[str]:
    return [statement for statement in _SCHEMA.split(";") if statement.strip()]


def _schema(database: sqlite3.Connection) -> list[Any]:
    return database.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()


@cache
def _own_schema() -> list[Any]:
    database = sqlite3.connect(":memory:")
    for statement in _statements():
        database.execute(statement)
    found = _schema(database)
    database.close()
    return found
