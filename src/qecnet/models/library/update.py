"""Adding to a library: predictions for the files that it is missing."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from qecnet.models.answer import Answer, Failure
from qecnet.models.library.catalogue import Catalogue, encode_path
from qecnet.models.library.records import Stamp, hash_file, read_stamp
from qecnet.models.model import Model

if TYPE_CHECKING:
    from qecnet.models.library.shape_library import Library

_SECONDS = 1.0
"""Time between two commits: a process that is killed loses no more work than this."""


class Hashed(NamedTuple):
    """The result for a file, with a hash of the file.

    Attributes:
        result: the answer or the failure.
        digest: a hash of the file's content, by which it is recognised under another name; empty if not known.
    """

    result: Answer | Failure
    digest: bytes = b""


def hash_answer(answer: Answer) -> Hashed:
    """Add the hash of its file to an answer; for the process that has just read the file.

    Args:
        answer: for a file.

    Returns:
        The answer with the hash.
    """
    return Hashed(answer, hash_file(Path(answer.name)))


def record_result(rows: Catalogue, folder: Path, hashed: Hashed) -> None:
    """Record the result for a missing file, with the stamp that it had in `find_changes`. Within a transaction.

    A file that has changed since then has no digest: it may not be what was predicted.
    """
    result, digest = hashed
    name = Path(result.name).relative_to(folder).as_posix()
    query = "SELECT size, modified FROM found WHERE path = CAST(? AS TEXT)"
    stamp = Stamp(*rows.execute(query, (encode_path(name),)).fetchone())
    if isinstance(result, Failure):
        rows.add_failure(name, stamp, result.error)
    else:
        rows.add([(name, stamp._replace(digest=digest if _has_stamp(folder / name, stamp) else b""), result)])


def _has_stamp(path: Path, stamp: Stamp) -> bool:
    try:
        return read_stamp(path) == stamp
    except OSError:
        return False


def extend(
    library: Library, model: Model, folder: Path, results: Iterable[Sequence[Hashed]] | None = None
) -> Generator[Answer | Failure]:
    """Predict the files that a library is missing after `Library.update`, and add them.

    They are added every second, at the end, and when the generator is closed or interrupted. Why a file failed is kept,
    too.

    Args:
        library: open for adding.
        model: that the library was made with.
        folder: the folder that paths are relative to.
        results: what the model predicts for these files, in any order, some at a time as they are done, see
            `hash_answer`; by default, it is asked here.

    Yields:
        The answer for each file, or a `Failure`.
    """
    waiting: list[Hashed] = []
    added = monotonic()

    def add() -> None:
        nonlocal added, waiting
        results, waiting = waiting, []  # results that cannot be added, on a full disk, are not tried a second time
        if results:
            library.add_results(folder, results)
        added = monotonic()

    try:
        if results is None:
            answers = model.predict_many(map(str, library.missing(folder)))
            results = ([Hashed(one) if isinstance(one, Failure) else hash_answer(one)] for one in answers)
        for some in results:
            for hashed in some:
                waiting.append(hashed)
                yield hashed.result
            if monotonic() - added > _SECONDS:
                add()
    finally:
        add()
    library.finish()
