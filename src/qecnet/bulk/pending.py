"""A run over any number of files that can be stopped at any time and resumes where it stopped."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from time import monotonic
from typing import Any

from qecnet.bulk.journal import Journal
from qecnet.bulk.sinks import Row
from qecnet.bulk.work import Do, Share, answer_files
from qecnet.models import Failure

_SECONDS = 5.0
"""Time between two commits: an interruption loses no more work than this."""


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
