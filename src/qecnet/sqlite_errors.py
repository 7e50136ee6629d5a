"""Errors of SQLite as sentences that say what to do."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qecnet.schema import first_line

_SYSTEM_FAULTS = ("full", "readonly", "unable to open", "locked", "permission", "disk I/O")
"""What SQLite says when the disk or its permissions are at fault, not the file."""


@contextmanager
def name_sqlite_errors(path: Path, problem: str, remedy: str, repair: str, *, busy: str = "") -> Iterator[None]:
    """Raise errors of SQLite in a block as one sentence that names the database.

    Args:
        path: the database.
        problem: what cannot be done with it, if the disk or its permissions are at fault.
        remedy: what to do in that case.
        repair: what to do about a damaged database.
        busy: what to say where another process has locked it; by default that is a problem like others.

    Raises:
        OSError: if the database cannot be used.
        ValueError: if it is damaged.
    """
    try:
        yield
    except UnicodeDecodeError as error:  # names of a damaged schema, in SQLite's own messages
        raise ValueError(f"{path}: is damaged (a name is not UTF-8); {repair}") from error
    except sqlite3.Error as error:
        reason = first_line(error)
        if busy and "locked" in reason:
            raise OSError(f"{path}: {busy}") from error
        if any(word in reason for word in _SYSTEM_FAULTS):
            raise OSError(f"{path}: {problem} ({reason}); {remedy}") from error
        raise ValueError(f"{path}: is damaged ({reason}); {repair}") from error
