"""Bulk runs of `qec classify`, `qec orient` and `qec index`: their options, progress, failures and summary."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import typer

from qecnet.cli._files import NO_FILES, count_cores, count_processes, iterate_shapes
from qecnet.cli._output import count_of
from qecnet.schema import printable

if TYPE_CHECKING:
    from qecnet.bulk import Columns, Journal, Progress, Row, Share, Work
    from qecnet.models import Answer, Failure, Hashed, Model

_SHOWN = 20
"""Failures that are printed; all are in the results."""


class BulkOptions(NamedTuple):
    """The options of a bulk run."""

    files: list[str]
    listed: str | None
    results: Path | None
    ray: str | None
    shard: str | None
    retry_failed: bool
    workers: int | None
    timeout: float


def check_bulk_options(options: BulkOptions, results_option: str) -> None:
    """Raise a ValueError for options that need a file of results, or if no files were given."""
    if not options.files and options.listed is None:
        raise ValueError(NO_FILES)
    given = {"--ray": options.ray, "--shard": options.shard, "--retry-failed": options.retry_failed}
    if options.results is None and (alone := [name for name, value in given.items() if value]):
        raise ValueError(f"{alone[0]} needs a file of results; name it with {results_option} results.csv")


def run_bulk(
    options: BulkOptions,
    command: str,
    work: Work[Row],
    columns: Columns,
    settings: Mapping[str, Any],
    **planning: Any,
) -> None:
    """Process what is new, changed or left over from an earlier run, and write all results.

    Args:
        options: which files, and where results go.
        command: the name of the command.
        work: what to do with each file.
        columns: of the results.
        settings: options of the command that change rows.
        planning: further arguments of `Journal.plan`, and `keep`, which says which files belong to the run.

    Raises:
        typer.Exit: with 1 if a file failed, or 130 after an interruption; results are written before.
    """
    from qecnet.bulk import Journal, Origin, Shard, check_address, check_results_path, journal_path, write_results
    from qecnet.models import hash_model

    assert options.results is not None
    shard = Shard.parse(options.shard) if options.shard else None
    results = shard.results_path(options.results) if shard else options.results
    check_results_path(results)
    if options.ray:
        check_address(options.ray)
    path = journal_path(results)
    if results.exists() and not path.exists():
        raise ValueError(f"{results}: exists already, without its journal {path.name}; choose another name")
    values = json.dumps({**work.options, **settings})
    model = work.model
    key = "-".join(map(str, (hash_model(model), *asdict(model.calibration).values())))
    origin = Origin(command, model.name, key, values, columns)
    failures, earlier = (FailureLog("the column error of the results") for _ in range(2))
    keep = planning.pop("keep", None)
    with closing(Journal(path, origin)) as journal:
        found: Iterable[Path] = iterate_shapes(options.files, options.listed, failures)
        if shard:
            found = shard.select(found, _only_folder(options))
        files = filter(keep, map(str, found))
        counts = journal.plan(files, failures, retry=options.retry_failed, fail_before=earlier, **planning)
        progress, stopped = _do_pending(journal, work, options, counts.pending, failures)
        write_results(results, (row for _, _, row in journal.rows()), columns)
        failed_at_all = journal.count_failed()
    if stopped:
        end_stopped(progress)
    note_failed_before(counts.failed_before)
    parts = [
        f"{progress.done - progress.failed:,} done",
        f"{counts.unchanged:,} unchanged",
        f"{failed_at_all:,} failed",
    ]
    typer.echo(printable(f"{results}: {', '.join(parts)}; {describe_rate(progress)}"))
    if failures.count or counts.failed_before:
        raise typer.Exit(1)


def _only_folder(options: BulkOptions) -> Path | None:
    """The folder that all files of a run are below, if it was given as such."""
    folder = Path(options.files[0]) if len(options.files) == 1 and options.listed is None else None
    return folder if folder is not None and folder.is_dir() else None


def _do_pending(
    journal: Journal, work: Work[Row], options: BulkOptions, pending: int, failures: FailureLog
) -> tuple[Progress, bool]:
    """The progress of the run, and whether it was interrupted."""
    from qecnet.bulk import Progress, do_pending

    progress = Progress(pending)
    share: Share[Row] = _choose_share(pending, options.ray, options.workers, options.timeout)
    if not pending:
        journal.commit(finished=True)
        return progress, False
    show = ProgressLine()
    try:
        do_pending(journal, work, share, progress, show, failures)
    except KeyboardInterrupt:
        return progress, True
    finally:
        show.clear()
    return progress, False


def _choose_share(count: int, ray: str | None, workers: int | None, timeout: float) -> Share[Any]:
    """How `count` files are shared out: among processes of this machine, or on a Ray cluster."""
    from qecnet.bulk import share_on_ray
    from qecnet.workers import as_done

    if ray:
        return partial(share_on_ray, address=ray, workers=workers or count_cores(), timeout=timeout)
    return partial(as_done, workers=workers or count_processes(count), timeout=timeout)


def share_answers(
    model: Model, paths: Iterable[str], count: int, ray: str | None, workers: int | None, timeout: float
) -> Iterator[list[Hashed]]:
    """What a model predicts for `count` files, some at a time as they are done; workers hash them, too."""
    from qecnet.bulk import Work, answer_files
    from qecnet.models import Failure, Hashed

    share: Share[bytes] = _choose_share(count, ray, workers, timeout)
    for results in answer_files(Work(model, _pack), paths, share):
        yield [Hashed(result) if isinstance(result, Failure) else pickle.loads(result) for _, result in results]


def _pack(answer: Answer) -> bytes:
    """An answer as bytes: torch would send each tensor as a separate file handle."""
    from qecnet.models import hash_answer

    return pickle.dumps(hash_answer(answer))


def note_failed_before(count: int) -> None:
    """Print how many files were skipped because they failed before."""
    if count:
        skipped = f"failed before and {'was' if count == 1 else 'were'} skipped"
        typer.echo(f"note: {count_of(count, 'file')} {skipped}; try again with --retry-failed", err=True)


def end_stopped(progress: Progress) -> NoReturn:
    """End a command that was interrupted, with a sentence; a progress without a total is that of a run that lists."""
    left = f"{progress.total - progress.done:,} files are left; " if progress.total else ""
    typer.echo(f"stopped: {left}run the same command again to continue", err=True)
    raise typer.Exit(130)


def describe_rate(progress: Progress) -> str:
    """The time that a run took, and files per second."""
    if not progress.done:
        return "nothing to do"
    return f"{timedelta(seconds=round(progress.seconds))}, {progress.rate:.1f} files/s"


class ProgressLine:
    """Progress on standard error: one line that is rewritten on a terminal, otherwise a line per minute."""

    def __init__(self, task: str = "") -> None:
        self.task = task
        self.terminal = sys.stderr.isatty()
        self.shown = 0.0 if self.terminal else monotonic()

    def __call__(self, progress: Progress) -> None:
        if monotonic() - self.shown < (0.2 if self.terminal else 60.0):
            return
        self.shown = monotonic()
        left = "" if progress.seconds_left is None else f", {timedelta(seconds=round(progress.seconds_left))} left"
        text = f"{self.task}{progress.done:,} of {progress.total:,} files, {progress.rate:.1f} files/s"
        text += f", {progress.failed:,} failed"
        typer.echo(f"\r{text}{left}\033[K" if self.terminal else f"{text}{left}", err=True, nl=not self.terminal)

    def clear(self) -> None:
        """Remove the line."""
        if self.terminal:
            typer.echo("\r\033[K", err=True, nl=False)


class FailureLog:
    """Counts failures and prints them on standard error: the first ones if a file at `place` has all of them."""

    def __init__(self, place: str | None) -> None:
        self.place = place
        self.count = 0

    def __call__(self, failure: Failure) -> None:
        self.count += 1
        start = "\r\033[K" if sys.stderr.isatty() else ""
        if self.place is None or self.count <= _SHOWN:
            typer.echo(f"{start}qec: {printable(failure.error)}", err=True)
        elif self.count == _SHOWN + 1:
            typer.echo(f"{start}note: further failures are in {self.place}", err=True)
