"""`qec index`: an index of a folder of shapes that `qec search` searches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from qecnet import DEFAULT_MODEL
from qecnet.cli._bulk import FailureLog, ProgressLine, describe_rate, end_stopped, note_failed_before, share_answers
from qecnet.cli._files import iterate_shapes
from qecnet.cli._interrupts import import_models
from qecnet.cli._options import (
    INDEX,
    TIMEOUT,
    FilesOrList,
    IndexPath,
    Listed,
    ModelName,
    RayAddress,
    RetryFailed,
    ShardOf,
    Timeout,
    Workers,
)
from qecnet.cli._output import count_of
from qecnet.schema import printable

if TYPE_CHECKING:
    from qecnet.bulk import Progress
    from qecnet.models import Hashed, Library


def index(
    files: FilesOrList = None,
    listed: Listed = None,
    library: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder that contains all files; paths in the index are relative to it. Default: the folder given.",
            show_default=False,
        ),
    ] = None,
    model: ModelName = DEFAULT_MODEL,
    index_path: IndexPath = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an index that is damaged or was made with another model.")
    ] = False,
    workers: Workers = None,
    ray: RayAddress = None,
    shard: ShardOf = None,
    retry_failed: RetryFailed = False,
    timeout: Timeout = TIMEOUT,
) -> None:
    """Index a folder of shapes for qec search.

    Example: qec index meshes/

    Run it again when files have changed: only new and changed files are processed, renamed and removed files are
    detected, and an interrupted run continues where it stopped. A file that cannot be read is reported, the others are
    indexed, and the exit code is 1. The index contains only the given files: find meshes -name '*.stl' | qec index
    --from - --library meshes/.
    """
    folder = _find_folder(files or [], listed, library)
    import_models()
    from qecnet.bulk import Progress, Shard, check_address
    from qecnet.models import edit_library, load

    part = Shard.parse(shard) if shard else None
    path = index_path or folder / INDEX
    path = part.results_path(path) if part else path
    if ray:
        check_address(ray)
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}; create it first")
    loaded = load(model)
    failures, earlier = FailureLog(None), FailureLog(f"the table failures of {path / 'rows.sqlite'}")
    progress = Progress(0)
    with edit_library(path, loaded, replace=force) as opened:
        found: Iterable[Path] = iterate_shapes(files or [], listed, failures)
        found = part.select(found, folder) if part else found
        try:
            with _show_comparing() as show:
                changes = opened.update(folder, found, failures, retry=retry_failed, fail_before=earlier, show=show)
            progress.total = changes.missing
            missing = map(str, opened.missing(folder))
            answers = share_answers(loaded, missing, changes.missing, ray, workers, timeout)
            _add_answers(opened, folder, answers, progress, failures)
        except KeyboardInterrupt:
            end_stopped(progress)
        total = len(opened)
    note_failed_before(changes.failed_before)
    new = progress.done - progress.failed
    counts = f"{new:,} new or changed, {changes.unchanged:,} unchanged, {changes.removed:,} removed"
    if changes.renamed:
        counts += f", {changes.renamed:,} renamed"
    if failed := progress.failed + changes.failed_before:
        counts += f", {failed:,} failed"
    typer.echo(f"{printable(str(path))}: {count_of(total, 'shape')} ({counts}); {describe_rate(progress)}")
    if failures.count or changes.failed_before:
        raise typer.Exit(1)


def _find_folder(files: list[str], listed: str | None, library: Path | None) -> Path:
    """The folder that paths in the index are relative to."""
    if library is None and len(files) == 1 and listed is None:
        library = Path(files[0])
    if library is None:
        if not files and listed is None:
            raise ValueError("no folder was given; name one, as in qec index meshes/")
        what = "several files were given" if files else "a list was given"
        raise ValueError(f"{what}; name the folder that contains them all with --library")
    if not library.is_dir():
        raise ValueError(f"{library}: is not a folder; name the folder of the library with --library")
    return library


@contextmanager
def _show_comparing() -> Iterator[Callable[[int, int], None]]:
    """Show the progress of comparing files by content that may only have been renamed or touched."""
    from qecnet.bulk import Progress

    line, start = ProgressLine("comparing: "), 0.0

    def show(done: int, total: int) -> None:
        nonlocal start
        start = start or monotonic()
        line(Progress(total, done, seconds=monotonic() - start))

    try:
        yield show
    finally:
        line.clear()


def _add_answers(
    library: Library, folder: Path, answers: Iterable[list[Hashed]], progress: Progress, failures: FailureLog
) -> None:
    """Add answers to a library, including those that are available when it is interrupted."""
    from qecnet.models import Failure

    show, start = ProgressLine(), monotonic()
    try:
        with closing(library.extend(folder, answers)) as results:
            for result in results:
                progress.done += 1
                progress.seconds = monotonic() - start
                if isinstance(result, Failure):
                    progress.failed += 1
                    failures(result)
                show(progress)
    finally:
        show.clear()
