"""A run over any number of files: what a worker does with a few of them, how they are shared out, and what is kept.

It can be stopped at any time and resumes where it stopped, and the death of a worker loses no other answer.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic
from typing import Any, Generic, TypeVar

from qecnet.bulk.journal import Journal
from qecnet.bulk.sinks import Row
from qecnet.models import BATCH, Answer, Failure, Model
from qecnet.schema import first_line
from qecnet.workers import Lost

T = TypeVar("T")
FileBatch = tuple[str, ...]
"""A job: at most `BATCH` files."""
_ATTEMPTS = 3
"""How often a file may be alone in a worker that dies; once could be a machine that was switched off."""

_SECONDS = 5.0
"""Time between two commits: an interruption loses no more work than this."""


class CannotWrite(OSError):
    """The disk that files are written to is full or read-only, which holds for all files, so the run ends."""


@dataclass(frozen=True)
class Work(Generic[T]):
    """The work on files: sent to each worker once, and called there with one job after another.

    Attributes:
        model: predicts the files.
        describe: converts an answer to the result that is stored, or writes a file; runs in the worker.
        options: further arguments of `Model.predict_batch`; JSON can hold them.
    """

    model: Model
    describe: Callable[[Answer], T | Failure]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, files: FileBatch) -> list[T | Failure]:
        """One result for each file, in order. No error of a file is raised: it becomes a `Failure`.

        Raises:
            CannotWrite: by `describe`.
        """
        try:
            answers = self.model.predict_batch(files, **self.options)
            return [one if isinstance(one, Failure) else self.describe(one) for one in answers]
        except CannotWrite:
            raise
        except Exception as error:  # a bug in a reader that only one file triggers must not end the run
            if len(files) > 1:
                return [result for file in files for result in self((file,))]
            kind = type(error).__name__
            return [Failure(files[0], f"{files[0]}: failed ({kind}: {first_line(error)}); please report this file")]


Do = Callable[[FileBatch], list[T | Failure]]
"""What is done with a job, such as `Work`."""
Share = Callable[[Do[T], Callable[[], FileBatch | None]], Iterator[tuple[FileBatch, list[T | Failure] | Lost]]]
"""Shares out jobs: takes one after another, and yields each with its results, or why it has none."""


def answer_files(work: Do[T], files: Iterable[str], share: Share[T]) -> Iterator[list[tuple[str, T | Failure]]]:
    """Process each file exactly once.

    When a worker dies or takes too long, its files are processed again one by one. A file whose worker dies each time,
    or that takes too long alone, gives a `Failure`. Memory does not grow with the number of files.

    Args:
        work: what is done with the files of a job.
        files: their paths.
        share: distributes jobs, such as `qecnet.workers.as_done` or `share_on_ray` does.

    Yields:
        The files of a job with their results, as soon as the job is done.
    """
    rest = iter(files)
    alone: deque[tuple[FileBatch, int]] = deque()
    attempts: dict[FileBatch, int] = {}

    def take() -> FileBatch | None:
        if alone:
            job, attempts[job] = alone.popleft()
            return job
        return tuple(islice(rest, BATCH)) or None

    for job, results in share(work, take):
        attempt = attempts.pop(job, 0)
        if not isinstance(results, Lost):
            yield [*zip(job, results, strict=True)]
        elif len(job) > 1:
            alone.extend(((file,), 1) for file in job)
        elif results is Lost.LATE:
            reason = "takes longer than a file may; allow more with --timeout and --retry-failed, or repair it"
            yield [(job[0], Failure(job[0], f"{job[0]}: {reason}"))]
        elif attempt < _ATTEMPTS:
            alone.append((job, attempt + 1))
        else:
            reason = f"ended the process that read it, {_ATTEMPTS} times; it may need more memory than there is"
            yield [(job[0], Failure(job[0], f"{job[0]}: {reason}"))]


@dataclass
class Progress:
    """The progress of a run.

    Attributes:
        total: the number of files to do.
        done, failed: how many of them are done, failures included, and how many failed.
        seconds: since the work began.
    """

    total: int
    done: int = 0
    failed: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Files per second."""
        return self.done / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """The remaining time at that rate; None while the rate is not known."""
        return (self.total - self.done) / self.rate if self.done else None


def do_pending(
    journal: Journal,
    work: Do[Row],
    share: Share[Row],
    progress: Progress,
    show: Callable[[Progress], None],
    fail: Callable[[Failure], None],
) -> None:
    """Process the pending files of a journal, and commit every few seconds, at the end and if interrupted.

    Args:
        journal: what is to be done, and where results are kept.
        work: what to do with each file.
        share: shares out the work, among processes or machines.
        progress: kept up to date.
        show: called after each job.
        fail: called for each failure.
    """
    start = saved = monotonic()
    answers: Any = answer_files(work, journal.pending(), share)
    try:
        with closing(answers):
            for results in answers:
                for file, result in results:
                    journal.record(file, result)
                    progress.done += 1
                    if isinstance(result, Failure):
                        progress.failed += 1
                        fail(result)
                progress.seconds = monotonic() - start
                show(progress)
                if monotonic() - saved > _SECONDS:
                    journal.commit()
                    saved = monotonic()
    finally:
        journal.commit(finished=progress.done == progress.total)
