"""The SQLite file of a library: its schema is checked, it is changed in transactions, and it records its model.

Files are untrusted: the schema has to be exactly ours, so that a file contains no trigger or view.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from qecnet.models.library.records import About
from qecnet.schema import decode, parse_object
from qecnet.sqlite_errors import name_sqlite_errors

ROWS = "rows.sqlite"
_VERSION = 3
"""Of the format."""
_SCHEMA = """
CREATE TABLE about (
    version INTEGER NOT NULL, text TEXT NOT NULL, generation INTEGER NOT NULL, codes BLOB, finished INTEGER NOT NULL);
CREATE TABLE shapes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, modified INTEGER NOT NULL,
    digest BLOB NOT NULL, class TEXT NOT NULL, confidence REAL NOT NULL,
    w REAL NOT NULL, x REAL NOT NULL, y REAL NOT NULL, z REAL NOT NULL);
CREATE INDEX classes ON shapes (class, confidence);
CREATE TABLE descriptors (id INTEGER PRIMARY KEY, descriptor BLOB NOT NULL);
CREATE TABLE failures (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, modified INTEGER NOT NULL, error TEXT NOT NULL) WITHOUT ROWID;
"""
_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")
"""The end of a journal that names another file for SQLite to delete; one database alone never writes it."""
_WAITS = 60.0
"""Seconds to wait for another process's transaction."""
_MOST_FREE = 0.1
"""The share of free pages from which the file is made shorter."""
_KEPT = "what was added before is kept; fix this and try again"
_REBUILD = "build it again with qec index --force"


class Database:
    """An open database, and the row that says what it was made with."""

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
            self._db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            with self.transaction():
                for statement in _SCHEMA.split(";"):
                    self._db.execute(statement)
                row = (_VERSION, json.dumps(asdict(about)))
                self._db.execute("INSERT INTO about VALUES (?, ?, 0, NULL, 0)", row)
        if _schema(self._db) != _own_schema():
            raise self.damage("its tables are not those of an index of this version")
        rows = self._db.execute("SELECT version, text FROM about LIMIT 2").fetchall()
        if len(rows) != 1 or not isinstance(rows[0][1], str):
            raise self.damage("it does not record what it was made with")
        if rows[0][0] != _VERSION:
            raise ValueError(f"{self.path}: was written by another version of qecnet; {_REBUILD}")
        self.about = decode(parse_object(rows[0][1], self.path), About, self.path)

    def close(self) -> None:
        self._db.close()

    def damage(self, reason: str) -> ValueError:
        """The error for a database with invalid content."""
        return ValueError(f"{self.path}: is damaged ({reason}); {_REBUILD}")

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

    def execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Run one statement. Within a transaction."""
        with self._sentences():
            return self._db.execute(statement, values)

    @property
    def generation(self) -> int:
        """The number of the vectors file, 0 if there was none yet."""
        (found,) = self._db.execute("SELECT generation FROM about").fetchone()
        if not isinstance(found, int) or found < 0:
            raise self.damage("the number of its vectors file is negative")
        return found

    @property
    def codes(self) -> bytes:
        """How the vectors file encodes descriptors, see `Codes`; empty if there is no longer such a file."""
        (found,) = self._db.execute("SELECT codes FROM about").fetchone()
        if not isinstance(found, bytes):
            raise self.damage("it does not record how its vectors are encoded")
        return found

    @property
    def finished(self) -> bool:
        """Whether all files of the last update have been indexed or have failed."""
        return bool(self._db.execute("SELECT finished FROM about").fetchone()[0])

    def finish(self, finished: bool = True) -> None:
        """Record whether all files have been indexed. Within a transaction."""
        self._db.execute("UPDATE about SET finished = ?", (finished,))

    @property
    def version(self) -> tuple[int, int]:
        """Changes whenever this or another process has changed the database."""
        return self._db.execute("PRAGMA data_version").fetchone()[0], self._db.total_changes

    def seal(self, generation: int, codes: bytes) -> None:
        """Record the number of the vectors file that holds the shapes so far; empty codes if there is none any more.

        Within a transaction. Numbers are never reused: readers identify a file by its number.
        """
        self._db.execute("UPDATE about SET generation = ?, codes = ?", (generation, codes))

    def shrink(self) -> None:
        """Release the pages of removed rows, if they are many."""
        with self._sentences():
            pages, free = (
                self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count")
            )
            if free > _MOST_FREE * pages:
                self._db.executescript("PRAGMA incremental_vacuum")  # `execute` would free one page

    def _sentences(self) -> AbstractContextManager[None]:
        """Raise errors of SQLite as one sentence that names the file."""
        return name_sqlite_errors(self.path, "cannot be used", _KEPT, _REBUILD)

    def _refuse_foreign_journal(self) -> None:
        journal = self.path.with_name(f"{ROWS}-journal")
        if journal.is_file() and journal.read_bytes()[-8:] == _SUPER_JOURNAL:
            raise self.damage("its journal names another file")


def _schema(database: sqlite3.Connection) -> list[Any]:
    return database.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()


@cache
def _own_schema() -> list[Any]:
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(_SCHEMA)
        return _schema(database)
