"""Bringing a library up to date with its files: which have changed, and predictions for those."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from qecnet.models.answer import Answer, Failure
from qecnet.models.library.catalogue import Catalogue, encode_path
from qecnet.models.library.records import Changes, Stamp, hash_file
from qecnet.models.model import Model

if TYPE_CHECKING:
    from qecnet.models.library.shape_library import Library

_SECONDS = 1.0
"""Time between two commits: a process that is killed loses no more work than this."""
_PAGE = 1024
"""Paths that are read at once."""
_TEMPORARY = """
DROP TABLE IF EXISTS temp.found;
CREATE TEMP TABLE found (path TEXT PRIMARY KEY, size INTEGER, modified INTEGER) WITHOUT ROWID;
DROP TABLE IF EXISTS temp.gone;
CREATE TEMP TABLE gone (id INTEGER PRIMARY KEY, path TEXT, size INTEGER, digest BLOB);
CREATE INDEX temp.contents ON gone (size, digest)
"""
"""Tables of this process alone, in a file that it deletes: memory does not grow with the number of files."""
_SAME = "path = found.path AND size = found.size AND modified = found.modified"


def find_changes(
    rows: Catalogue, folder: Path, files: Iterable[Path], fail: Callable[[Failure], None], *, retry: bool
) -> Changes:
    """Compare rows with all files of a library, and remove and rename rows. Within a transaction.

    A file that has only another name or time of change is known by its content and keeps its row. What is left to be
    done is in the table `found`, see `missing_files`.
    """
    for statement in _TEMPORARY.split(";"):
        rows.execute(statement)
    _list_files(rows, folder, files, fail)
    rows.execute(
        "INSERT INTO gone SELECT id, path, size, digest FROM shapes WHERE path NOT IN (SELECT path FROM found)"
    )
    _keep_unreachable(rows, folder)
    rows.execute("DELETE FROM failures WHERE path NOT IN (SELECT path FROM found)")
    unchanged = rows.execute(f"DELETE FROM found WHERE EXISTS (SELECT 1 FROM shapes WHERE {_SAME})").rowcount
    failed = 0
    if not retry:
        failed = rows.execute(f"DELETE FROM found WHERE EXISTS (SELECT 1 FROM failures WHERE {_SAME})").rowcount
    unchanged += _keep_touched(rows, folder)
    renamed = _rename(rows, folder)
    changed = "SELECT id FROM shapes JOIN found USING (path) UNION ALL SELECT id FROM gone"
    rows.execute(f"DELETE FROM descriptors WHERE id IN ({changed})")
    rows.execute(f"DELETE FROM shapes WHERE id IN ({changed})")
    (removed,) = rows.execute("SELECT count(*) FROM gone").fetchone()
    (missing,) = rows.execute("SELECT count(*) FROM found").fetchone()
    rows.finish(not missing)
    return Changes(missing, unchanged, renamed, removed, failed)


def _list_files(rows: Catalogue, folder: Path, files: Iterable[Path], fail: Callable[[Failure], None]) -> None:
    """Fill `found` with the stamps of files; those that are missing or not below the folder are failures."""
    root = os.path.join(os.path.abspath(folder), "")
    for path in files:
        place = os.path.abspath(path)
        if not place.startswith(root):
            fail(Failure(str(path), f"{path}: is not below {folder}; index it with another library"))
            continue
        try:
            status = path.stat()
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            fail(Failure(str(path), f"{path}: cannot be read ({reason}); correct the list"))
            continue
        name = encode_path(Path(place[len(root) :]).as_posix())
        values = (name, status.st_size, status.st_mtime_ns)
        rows.execute("INSERT OR IGNORE INTO found VALUES (CAST(? AS TEXT), ?, ?)", values)


def _keep_unreachable(rows: Catalogue, folder: Path) -> None:
    """Take rows off `gone` whose file may still be there: its folder cannot be opened, or its disk gives errors."""
    query = "SELECT path, id FROM gone WHERE path > CAST(? AS TEXT) ORDER BY path LIMIT ?"
    for name, number in _pages(rows, query):
        try:
            (folder / name).stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            rows.execute("DELETE FROM gone WHERE id = ?", (number,))


def _keep_touched(rows: Catalogue, folder: Path) -> int:
    """Give rows of files that only have another time of change that time, and take them off the list."""
    query = (
        "SELECT path, found.size, found.modified, digest FROM found JOIN shapes USING (path) "
        "WHERE found.size = shapes.size AND path > CAST(? AS TEXT) ORDER BY path LIMIT ?"
    )
    kept = 0
    for name, size, modified, digest in _pages(rows, query):
        if digest and _content(folder / name) == digest:
            rows.rename(name, name, Stamp(size, modified, digest))
            _take_off(rows, name)
            kept += 1
    return kept


def _rename(rows: Catalogue, folder: Path) -> int:
    """Rename rows whose file is gone to new files with the same content, and take both off the lists."""
    query = (
        "SELECT path, size, modified FROM found WHERE path NOT IN (SELECT path FROM shapes) "
        "AND size IN (SELECT size FROM gone) AND path > CAST(? AS TEXT) ORDER BY path LIMIT ?"
    )
    renamed = 0
    for name, size, modified in _pages(rows, query):
        digest = _content(folder / name)
        old = rows.execute("SELECT id, path FROM gone WHERE size = ? AND digest = ? LIMIT 1", (size, digest)).fetchone()
        if old and digest:
            rows.rename(old[1], name, Stamp(size, modified, digest))
            rows.execute("DELETE FROM gone WHERE id = ?", old[:1])
            _take_off(rows, name)
            renamed += 1
    return renamed


def _content(path: Path) -> bytes:
    """A hash of a file's content; empty where it cannot be read, which its prediction will say."""
    try:
        return hash_file(path)
    except OSError:
        return b""


def _take_off(rows: Catalogue, name: str) -> None:
    rows.execute("DELETE FROM found WHERE path = CAST(? AS TEXT)", (encode_path(name),))


def missing_files(rows: Catalogue) -> Iterator[str]:
    """The paths that are left to be indexed after `find_changes`, relative to the folder, in order."""
    query = "SELECT path FROM found WHERE path > CAST(? AS TEXT) ORDER BY path LIMIT ?"
    return (name for (name,) in _pages(rows, query))


def _pages(rows: Catalogue, query: str) -> Iterator[Any]:
    """The rows of a query, some at a time: what is changed meanwhile does not matter to it."""
    last = b""
    while page := rows.execute(query, (last, _PAGE)).fetchall():
        yield from page
        last = encode_path(page[-1][0])


def record_result(rows: Catalogue, folder: Path, result: Answer | Failure) -> None:
    """Keep what a missing file gave, with the stamp that it had in `find_changes`. Within a transaction.

    A file that has changed since then has no digest: it may not be what was predicted.
    """
    name = Path(result.name).relative_to(folder).as_posix()
    query = "SELECT size, modified FROM found WHERE path = CAST(? AS TEXT)"
    stamp = Stamp(*rows.execute(query, (encode_path(name),)).fetchone())
    if isinstance(result, Failure):
        rows.add_failure(name, stamp, result.error)
    else:
        digest = _content(folder / name)
        rows.add([(name, stamp._replace(digest=digest if _has_stamp(folder / name, stamp) else b""), result)])


def _has_stamp(path: Path, stamp: Stamp) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    return (status.st_size, status.st_mtime_ns) == (stamp.size, stamp.modified)


def extend(
    library: Library, model: Model, folder: Path, results: Iterable[Answer | Failure] | None = None
) -> Generator[Answer | Failure]:
    """Predict the files that a library is missing after `Library.update`, and add them.

    They are added every second, at the end, and when the generator is closed or interrupted. Why a file failed is kept,
    too.

    Args:
        library: open for adding.
        model: that the library was made with.
        folder: the folder that paths are relative to.
        results: what the model predicts for these files, in any order; by default, it is asked here.
    """
    waiting: list[Answer | Failure] = []
    added = monotonic()

    def add() -> None:
        nonlocal added
        library.add_results(folder, waiting)
        waiting.clear()
        added = monotonic()

    try:
        for result in model.predict_many(map(str, library.missing(folder))) if results is None else results:
            waiting.append(result)
            yield result
            if monotonic() - added > _SECONDS:
                add()
    finally:
        add()
    library.finish()
