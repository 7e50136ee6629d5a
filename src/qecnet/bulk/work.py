"""What a worker does with a few files, and how they are shared out so that a worker's death loses no other answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, TypeVar

from qecnet.models import BATCH, Answer, Failure, Model
from qecnet.schema import first_line
from qecnet.workers import Lost

T = TypeVar("T")
FileBatch = tuple[str, ...]
"""A job: at most `BATCH` files."""
_ATTEMPTS = 3
"""How often a file may be alone in a worker that dies; once could be a machine that was switched off."""


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
