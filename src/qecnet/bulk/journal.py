"""The progress of a run in an SQLite file that survives any interruption: one row for each file."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from qecnet.bulk.sinks import Columns, Row
from qecnet.models import Failure, read_stamp
from qecnet.schema import decode, parse_object
from qecnet.sqlite_errors import name_sqlite_errors

_VERSION = 1
"""Of the format."""
_PAGE = 1024
_SCHEMA = """
CREATE TABLE about (origin TEXT NOT NULL, finished INTEGER NOT NULL);
CREATE TABLE files (
    file BLOB PRIMARY KEY, size INTEGER, modified INTEGER, output TEXT, row TEXT, error TEXT
) WITHOUT ROWID;
CREATE UNIQUE INDEX outputs ON files (output) WHERE output IS NOT NULL;
CREATE INDEX pending ON files (file) WHERE row IS NULL AND error IS NULL;
CREATE INDEX failed ON files (file) WHERE error IS NOT NULL;
"""
_PENDING = "row IS NULL AND error IS NULL"
_NOT_OPENED = "change its permissions, or choose another name"
_INTERRUPTED = "finished work is kept; run the same command again to continue"
_DAMAGED = "choose another name, or delete the results and their journal"
_BUSY = "is in use by another run; wait for it, or choose another name"


@dataclass(frozen=True)
class Origin:
    """What the rows of a journal depend on besides the files.

    Attributes:
        command: the name of the command.
        model: the name of the model, for messages.
        key: a hash of its weights.
        options: the options that change rows, as JSON.
        columns: names and kinds of the values in a row.
        version: of the format of journals.
    """

    command: str
    model: str
    key: str
    options: str
    columns: Columns
    version: int = _VERSION

    def fits(self, other: Origin) -> bool:
        """Check whether rows of both may be in one table; of the model, only the weights matter, not the name.

        Args:
            other: the origin to compare with.

        Returns:
            True if they may.
        """
        return replace(self, model="") == replace(other, model="")

    def check_journal(self, path: Path, theirs: Origin) -> None:
        """Check that a journal belongs to this run.

        Args:
            path: of the journal, for the message.
            theirs: its origin.

        Raises:
            ValueError: if it does not; one sentence.
        """
        remedy = "choose another name, or delete the results and their journal"
        if theirs.version != self.version or (theirs.command == self.command and theirs.columns != self.columns):
            raise ValueError(f"{path}: was written by another version of qecnet; {remedy}")
        if theirs.command != self.command:
            raise ValueError(f"{path}: was written by qec {theirs.command}; {remedy}")
        before, now = (parse_object(text, path) for text in (theirs.options, self.options))
        for name in sorted({*before, *now}):
            shown = [_show(options.get(name)) for options in (before, now)]
            if shown[0] != shown[1]:
                values = ", and now ".join(shown)
                raise ValueError(f"{path}: was made with --{name.replace('_', '-')} {values}; {remedy}")
        if theirs.key != self.key:
            raise ValueError(f"{path}: was made with other weights ({theirs.model}); {remedy}")


class Journal:
    """The rows of a run. One process at a time has it open.

    Each file is pending, done (it has a row) or failed (it has an error). Nothing is stored before `commit`.

    Args:
        path: the SQLite file; created if it is missing.
        origin: of the run that writes; None opens a journal that exists, to read it.

    Raises:
        ValueError: the journal is damaged, or of another run; one sentence.
        OSError: it cannot be opened or is in use; one sentence.
    """

    def __init__(self, path: Path, origin: Origin | None = None) -> None:
        self.path = path
        if origin is None and not path.is_file():
            raise ValueError(f"{path}: does not exist; give the results of a run with --shard")
        with self._errors("opened", _NOT_OPENED):
            self._base = sqlite3.connect(path, timeout=1.0)
            self._base.text_factory = lambda data: data.decode("utf-8", "surrogatepass")
        try:
            self.origin, self.finished = self._read_about(origin)
            if origin is not None:
                origin.check_journal(self.path, self.origin)
        except BaseException:
            self._base.close()
            raise

    def _read_about(self, origin: Origin | None) -> tuple[Origin, bool]:
        """The origin of the rows, and whether nothing is pending; a new journal gets that origin."""
        with self._errors("opened", _NOT_OPENED):
            # One writer, no shared memory: this works on network file systems, too.
            self._base.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._base.execute("BEGIN IMMEDIATE" if origin else "BEGIN")
            if origin is not None and not self._base.execute("SELECT 1 FROM sqlite_master").fetchone():
                for statement in _SCHEMA.split(";"):
                    self._base.execute(statement)
                self._base.execute("INSERT INTO about VALUES (?, 0)", [json.dumps(asdict(origin))])
            text, finished = self._base.execute("SELECT origin, finished FROM about").fetchone() or ("{}", 0)
            self._base.commit()
        return decode(parse_object(text, self.path), Origin, self.path), bool(finished)

    def close(self) -> None:
        """Close the file, without what was not committed."""
        self._base.close()

    def commit(self, *, finished: bool = False) -> None:
        """Store everything so far.

        Args:
            finished: whether nothing is pending.
        """
        with self._errors():
            self._base.execute("UPDATE about SET finished = ?", [finished])
            self._base.commit()

    def plan(
        self,
        files: Iterable[str],
        fail: Callable[[Failure], None],
        *,
        retry: bool = False,
        fail_before: Callable[[Failure], None] = lambda failure: None,
        output_of: Callable[[str], str] | None = None,
        overwrite: bool = False,
    ) -> PlanCounts:
        """Make those files pending that are new or have changed.

        Args:
            files: paths, in any order; repeated ones count once.
            fail: called for each file that cannot be processed, with the reason; the file is recorded as failed.
            retry: whether to make files pending that failed before.
            fail_before: called for each of these files with the reason, unless they are made pending.
            output_of: the file that a file is written to, if the command writes any.
            overwrite: whether to write to files that exist and that this journal did not write.

        Returns:
            How many files are pending, done and failed.
        """
        counts = PlanCounts()
        with self._errors():
            for file in files:
                key = os.fsencode(file)
                query = "SELECT size, modified, row, error FROM files WHERE file = ?"
                known = self._base.execute(query, [key]).fetchone()
                *before, row, error = known or [None] * 4
                stamp: list[int | None] = [None, None]
                problem = ""
                try:
                    stamp = [*read_stamp(file)[:2]]
                except OSError as reason:
                    problem = str(reason)
                same = known is not None and stamp == before
                if same and error is None:
                    counts.unchanged += row is not None
                    continue
                if same and not retry:
                    counts.failed_before += 1
                    fail_before(Failure(file, error))
                    continue
                if problem and row is not None:  # its result is kept: a disk may not be mounted
                    counts.missing += 1
                    fail(Failure(file, problem))
                    continue
                output = output_of(file) if output_of and not problem else None
                if output is not None:
                    is_ours = known is not None and error is None  # written, or begun, by this run
                    problem = self._output_problem(file, output, overwrite or is_ours)
                if problem:
                    counts.missing += 1
                    fail(Failure(file, problem))
                texts = _encode(None if problem else output), _encode(problem or None)
                insert = "REPLACE INTO files VALUES (?, ?, ?, CAST(? AS TEXT), NULL, CAST(? AS TEXT))"
                self._base.execute(insert, [key, *stamp, *texts])
            counts.pending = self._base.execute(f"SELECT count(*) FROM files WHERE {_PENDING}").fetchone()[0]
        self.commit()
        return counts

    def _output_problem(self, file: str, output: str, overwrite: bool) -> str:
        """Why a file must not be written to that output; empty if it may."""
        if not overwrite and os.path.exists(output):
            return f"{output}: exists already; write elsewhere, or overwrite it with --force"
        query = "SELECT 1 FROM files WHERE output = CAST(? AS TEXT) AND file <> ?"
        if self._base.execute(query, [_encode(output), os.fsencode(file)]).fetchone():
            return f"{file}: would be written to {output}, as another file is; orient it separately"
        return ""

    def pending(self) -> Iterator[str]:
        """List the files that are pending, without those that are recorded in the meantime.

        Yields:
            Their paths, in order.
        """
        last = b""
        while True:
            query = f"SELECT file FROM files WHERE {_PENDING} AND file > ? ORDER BY file LIMIT {_PAGE}"
            with self._errors():
                page = self._base.execute(query, [last]).fetchall()
            if not page:
                return
            for (last,) in page:
                yield os.fsdecode(last)

    def record(self, file: str, result: Row | Failure) -> None:
        """Record the result of a pending file.

        Args:
            file: its path.
            result: its row, or why it failed.
        """
        row = None if isinstance(result, Failure) else json.dumps(result, allow_nan=False)
        error = result.error if isinstance(result, Failure) else None
        update = "UPDATE files SET row = ?, error = CAST(? AS TEXT) WHERE file = ?"
        with self._errors():
            self._base.execute(update, [row, _encode(error), os.fsencode(file)])

    def count_failed(self) -> int:
        """Count the files that have failed.

        Returns:
            Their number.
        """
        with self._errors():
            count: int = self._base.execute("SELECT count(*) FROM files WHERE error IS NOT NULL").fetchone()[0]
        return count

    def rows(self) -> Iterator[tuple[bytes, int, Row]]:
        """Read the rows of files that are done or failed.

        Yields:
            Key, modification time and row of each file, sorted by key.
        """
        query = "SELECT file, modified, row, error FROM files WHERE row IS NOT NULL OR error IS NOT NULL ORDER BY file"
        with self._errors():
            for key, modified, row, error in self._base.execute(query):
                values: dict[str, Any] = {"error": error} if row is None else json.loads(row)
                yield key, modified or 0, {"file": os.fsdecode(key), **values}

    def _errors(self, verb: str = "written", remedy: str = _INTERRUPTED) -> AbstractContextManager[None]:
        """Raise errors of SQLite as one sentence."""
        return name_sqlite_errors(self.path, f"cannot be {verb}", remedy, _DAMAGED, busy=_BUSY)


@dataclass
class PlanCounts:
    """How many files are done already, failed before or cannot be done, and how many are pending, also of an earlier
    plan."""

    unchanged: int = 0
    failed_before: int = 0
    missing: int = 0
    pending: int = 0


def _encode(text: str | None) -> bytes | None:
    """A text as SQLite keeps it: names of files need not be Unicode, and sentences name files."""
    return None if text is None else text.encode("utf-8", "surrogatepass")


def _show(value: Any) -> str:
    """An option that is off is the same as one that did not exist yet."""
    if value is None or isinstance(value, bool):
        return "given" if value else "not given"
    return json.dumps(value).strip('"')
