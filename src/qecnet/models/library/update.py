"""Bringing a library up to date with its files: which have changed, and predictions for those."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from qecnet.models.answer import Answer, Failure
from qecnet.models.library.catalogue import Catalogue, Changes, Stamp, hash_file
from qecnet.models.model import Model

if TYPE_CHECKING:
    from qecnet.models.library.shape_library import Library

_SECONDS = 1.0
"""Time between two commits: a process that is killed loses no more work than this."""


def find_changes(rows: Catalogue, folder: Path, files: Iterable[Path]) -> Changes:
    """Compare rows with all files below a folder, and remove and rename rows. Within a transaction.

    A file that has only another name or time of change is known by its content and keeps its row.
    """
    missing, present, unchanged = dict[str, Stamp](), set[str](), 0
    for path in files:
        name, status = path.relative_to(folder).as_posix(), path.stat()
        stamp, known = Stamp(status.st_size, status.st_mtime_ns), rows.stamp(name)
        present.add(name)
        if known is not None and known[:2] == stamp[:2]:
            unchanged += 1
        elif known is not None and known.size == stamp.size and known.digest == hash_file(path):
            rows.rename(name, name, stamp._replace(digest=known.digest))
            unchanged += 1
        else:
            missing[name] = stamp
    gone: dict[tuple[int, bytes], list[str]] = {}
    for name, stamp in rows.stamps():
        if name not in present:
            gone.setdefault((stamp.size, stamp.digest), []).append(name)
    renamed = _rename(rows, folder, missing, gone)
    removed = [name for names in gone.values() for name in names]
    rows.remove([*removed, *missing])
    return Changes(missing, unchanged, renamed, len(removed))


def _rename(rows: Catalogue, folder: Path, missing: dict[str, Stamp], gone: dict[tuple[int, bytes], list[str]]) -> int:
    """Rename rows whose file is gone to new files with the same content, and take both off the lists."""
    sizes, renamed = {size for size, _ in gone}, 0
    for name, stamp in [*missing.items()]:
        if stamp.size in sizes and rows.stamp(name) is None:
            digest = hash_file(folder / name)
            if names := gone.get((stamp.size, digest)):
                rows.rename(names.pop(), name, stamp._replace(digest=digest))
                del missing[name]
                renamed += 1
    return renamed


def extend(
    library: Library,
    model: Model,
    folder: Path,
    missing: Mapping[str, Stamp],
    results: Iterable[Answer | Failure] | None = None,
) -> Generator[Answer | Failure]:
    """Predict the files that a library is missing, and add them.

    They are added every second, at the end, and when the generator is closed or interrupted.

    Args:
        library: open for adding.
        model: that the library was made with.
        folder: the folder that paths are relative to.
        missing: paths and stamps, from `Library.update`.
        results: what the model predicts for these files, in any order; by default, it is asked here.
    """
    found: list[tuple[str, Stamp, Answer]] = []
    added = monotonic()
    names = {str(folder / name): name for name in missing}
    try:
        for result in model.predict_many(names) if results is None else results:
            if isinstance(result, Answer):
                name = names[result.name]
                found.append((name, missing[name]._replace(digest=hash_file(folder / name)), result))
            yield result
            if monotonic() - added > _SECONDS:
                library.add(found)
                found, added = [], monotonic()
    finally:
        library.add(found)
    library.seal()
