"""Changes in the files of a library since it was last updated: rows are kept, renamed or removed."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

from qecnet.models.answer import Failure
from qecnet.models.library.catalogue import Catalogue, encode_path
from qecnet.models.library.records import Changes, Stamp, hash_file, read_stamp

_SECONDS = 1.0
"""Time between two commits: a process that is killed compares again what it did since then."""
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
_PAGED = "AND path > CAST(? AS TEXT) ORDER BY path LIMIT ?"
_TOUCHED = (
    "SELECT path, found.size, found.modified, digest FROM found JOIN shapes USING (path) WHERE found.size = shapes.size"
)
_NEW_NAME = (
    "SELECT path, size, modified FROM found WHERE path NOT IN (SELECT path FROM shapes) "
    "AND size IN (SELECT size FROM gone)"
)
"""Files that may be known by their content."""


def find_changes(
    rows: Catalogue,
    folder: Path,
    files: Iterable[Path],
    fail: Callable[[Failure], None],
    *,
    retry: bool,
    fail_before: Callable[[Failure], None],
    show: Callable[[int, int], None],
) -> Changes:
    """Compare rows with all files of a library, and remove and rename rows. See `Library.update` for the arguments.

    A file that only has another name or modification time is recognised by its content and keeps its row. Files that
    are left to index are in the table `found`, see `missing_files`. After an interruption, the next call continues.

    Raises:
        ValueError: if no file exists, but there are rows, which stay; one sentence.
    """
    with rows.transaction("DEFERRED"):  # which writes no other table: nothing is locked while files are listed
        for statement in _TEMPORARY.split(";"):
            rows.execute(statement)
        _list_files(rows, folder, files, fail)
    with rows.transaction():
        rows.finish(False)
        rows.execute(
            "INSERT INTO gone SELECT id, path, size, digest FROM shapes WHERE path NOT IN (SELECT path FROM found)"
        )
        _keep_unreachable(rows, folder)
        _refuse_empty(rows, folder)
        rows.execute("DELETE FROM failures WHERE path NOT IN (SELECT path FROM found)")
        unchanged = rows.execute(f"DELETE FROM found WHERE EXISTS (SELECT 1 FROM shapes WHERE {_SAME})").rowcount
        failed = 0 if retry else _leave_failed(rows, folder, fail_before)
    touched, renamed = _compare_contents(rows, folder, show)
    with rows.transaction():
        changed = "SELECT id FROM shapes JOIN found USING (path) UNION ALL SELECT id FROM gone"
        rows.execute(f"DELETE FROM descriptors WHERE id IN ({changed})")
        rows.execute(f"DELETE FROM shapes WHERE id IN ({changed})")
        (removed,) = rows.execute("SELECT count(*) FROM gone").fetchone()
        (missing,) = rows.execute("SELECT count(*) FROM found").fetchone()
        rows.finish(not missing)
    return Changes(missing, unchanged + touched, renamed, removed, failed)


def _list_files(rows: Catalogue, folder: Path, files: Iterable[Path], fail: Callable[[Failure], None]) -> None:
    """Fill `found` with the stamps of files; those that are missing or not below the folder are failures."""
    root = os.path.join(os.path.abspath(folder), "")
    for path in files:
        place = os.path.abspath(path)
        if not place.startswith(root):
            fail(Failure(str(path), f"{path}: is not below {folder}; index it with another library"))
            continue
        try:
            stamp = read_stamp(path)
        except OSError as error:
            fail(Failure(str(path), str(error)))
            continue
        values = (encode_path(Path(place[len(root) :]).as_posix()), stamp.size, stamp.modified)
        rows.execute("INSERT OR IGNORE INTO found VALUES (CAST(? AS TEXT), ?, ?)", values)


def _leave_failed(rows: Catalogue, folder: Path, fail_before: Callable[[Failure], None]) -> int:
    """Remove from `found` the files that failed before and have not changed, and report why. → their number"""
    same = "failures.size = found.size AND failures.modified = found.modified"
    query = f"SELECT path, error FROM failures JOIN found USING (path) WHERE {same} {_PAGED}"
    for name, error in _pages(rows, query):
        fail_before(Failure(str(folder / name), error))
    return rows.execute(f"DELETE FROM found WHERE EXISTS (SELECT 1 FROM failures WHERE {_SAME})").rowcount


def _keep_unreachable(rows: Catalogue, folder: Path) -> None:
    """Remove from `gone` the rows whose file may still exist: its folder cannot be opened, or its disk has errors."""
    query = f"SELECT path, id FROM gone WHERE true {_PAGED}"
    for name, number in _pages(rows, query):
        try:
            (folder / name).stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            rows.execute("DELETE FROM gone WHERE id = ?", (number,))


def _refuse_empty(rows: Catalogue, folder: Path) -> None:
    """Raise a ValueError if no file exists but rows are `gone`: a disk may not be mounted."""
    (gone,) = rows.execute("SELECT count(*) FROM gone").fetchone()
    if gone and not rows.execute("SELECT 1 FROM found").fetchone():
        raise ValueError(
            f"{folder}: none of the files to index exists, so no shape was removed; check that their disk is "
            "mounted, or empty the index with --force"
        )


def _compare_contents(rows: Catalogue, folder: Path, show: Callable[[int, int], None]) -> tuple[int, int]:
    """Keep the rows of files that only have another modification time or name, and remove them from `found`.

    They are recognised by their hashes; results are committed every second.

    Returns:
        How many files have only another modification time, and how many another name.
    """

    def keep_touched(name: str, size: int, modified: int, digest: bytes) -> bool:
        if not digest or hash_file(folder / name) != digest:
            return False
        rows.rename(name, name, Stamp(size, modified, digest))
        return True

    def rename(name: str, size: int, modified: int) -> bool:
        digest = hash_file(folder / name)
        old = rows.execute("SELECT id, path FROM gone WHERE size = ? AND digest = ? LIMIT 1", (size, digest)).fetchone()
        if not old or not digest:
            return False
        rows.rename(old[1], name, Stamp(size, modified, digest))
        rows.execute("DELETE FROM gone WHERE id = ?", old[:1])
        return True

    jobs: list[tuple[str, Callable[..., bool]]] = [(_TOUCHED, keep_touched), (_NEW_NAME, rename)]
    total = sum(rows.execute(f"SELECT count(*) FROM ({query})").fetchone()[0] for query, _ in jobs)
    done, kept = 0, [0, 0]
    for number, (query, keep) in enumerate(jobs):
        waiting, ended = _pages(rows, f"{query} {_PAGED}"), False
        while not ended:
            with rows.transaction():
                until, ended = monotonic() + _SECONDS, True
                for name, *values in waiting:
                    if keep(name, *values):
                        kept[number] += 1
                        rows.execute("DELETE FROM found WHERE path = CAST(? AS TEXT)", (encode_path(name),))
                    done += 1
                    show(done, total)
                    if monotonic() > until:
                        ended = False
                        break
    return kept[0], kept[1]


def missing_files(rows: Catalogue) -> Iterator[str]:
    """The paths that are left to be indexed after `find_changes`, relative to the folder, in order."""
    query = f"SELECT path FROM found WHERE true {_PAGED}"
    return (name for (name,) in _pages(rows, query))


def missing_stamp(rows: Catalogue, path: str) -> Stamp:
    """The stamp that one of `missing_files` had in `find_changes`."""
    query = "SELECT size, modified FROM found WHERE path = CAST(? AS TEXT)"
    return Stamp(*rows.execute(query, (encode_path(path),)).fetchone())


def _pages(rows: Catalogue, query: str) -> Iterator[Any]:
    """The rows of a query in pages, so that changes made in between do not affect it."""
    last = b""
    while page := rows.execute(query, (last, _PAGE)).fetchall():
        yield from page
        last = encode_path(page[-1][0])
