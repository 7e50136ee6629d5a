"""A run in parts, for batch schedulers: `--shard 3/16` does a sixteenth of the files, `qec merge` joins the results."""

from __future__ import annotations

import hashlib
import heapq
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from qecnet.bulk.journal import Journal
from qecnet.bulk.sinks import Row, write_results

_JOURNAL = ".journal"


def journal_path(results: Path) -> Path:
    """Name the journal of a file of results.

    Args:
        results: the file.

    Returns:
        A path in the same folder.
    """
    return results.with_name(results.name + _JOURNAL)


@dataclass(frozen=True)
class Shard:
    """One part of a run.

    Attributes:
        number: of this part, from 1 to `count`.
        count: number of parts.
    """

    number: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise ValueError(f"{self.number}/{self.count}: is not a shard; shards are numbered from 1/N to N/N")

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Parse a shard.

        Args:
            text: such as `3/16`.

        Returns:
            The shard.

        Raises:
            ValueError: if it is not a shard; one sentence.
        """
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
        if not found:
            raise ValueError(f"{text}: is not a shard; give its number and how many there are, such as 3/16")
        return cls(int(found[1]), int(found[2]))

    def select(self, files: Iterable[Path], folder: Path | None = None) -> Iterator[Path]:
        """Select the files of this shard: about one in `count`.

        The shard of a file depends on its path alone, so that it is the same when other files come and go, and on
        machines that have the folder elsewhere.

        Args:
            files: those of all shards.
            folder: the folder that the paths of files are taken relative to; by default they are taken as they are.

        Returns:
            Those of this shard, in the same order.
        """
        return (file for file in files if self._number_of(file, folder) == self.number)

    def _number_of(self, file: Path, folder: Path | None) -> int:
        name = (file if folder is None else Path(os.path.relpath(file, folder))).as_posix()
        digest = hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).digest()
        return int.from_bytes(digest, "big") % self.count + 1

    def results_path(self, results: Path) -> Path:
        """Name the file for the results of this shard.

        Args:
            results: for all shards, such as `results.parquet`.

        Returns:
            For this shard, such as `results-03-of-16.parquet`.
        """
        number = str(self.number).zfill(len(str(self.count)))
        return results.with_name(f"{results.stem}-{number}-of-{self.count}{results.suffix}")


def merge_shards(results: Path, *, partial: bool = False) -> int:
    """Join the results of all shards into one file, sorted by path.

    A file that is in several shards, because the list changed between them, is taken once: its newest answer.

    Args:
        results: the file to write, as it was given to the shards.
        partial: whether to leave out shards that are missing, and to take those that are not finished.

    Returns:
        The number of shards.

    Raises:
        ValueError: a shard is missing, not finished or of another run; one sentence.
    """
    with ExitStack() as stack:
        paths = find_shards(journal_path(results), results.suffix + _JOURNAL, partial=partial)
        journals = [stack.enter_context(closing(Journal(path))) for path in paths]
        for journal in journals:
            if not journal.origin.fits(journals[0].origin):
                raise ValueError(
                    f"{journal.path}: belongs to a different run than {journals[0].path}; merge shards of one run"
                )
            if not journal.finished and not partial:
                raise ValueError(f"{journal.path}: is not finished; run this shard again, or merge with --partial")
        write_results(results, _merge_rows(journals), journals[0].origin.columns)
    return len(journals)


def find_shards(whole: Path, ending: str, *, partial: bool) -> list[Path]:
    """Find the parts of a whole, in order: `index-01-of-16` and so on of `index`.

    Args:
        whole: the path whose parts are in the same folder.
        ending: the end of its name, which is the end of theirs, too.
        partial: whether some may be missing.

    Returns:
        The paths of the parts.

    Raises:
        ValueError: there are none, they are of several runs, or some are missing; one sentence.
    """
    stem = whole.name.removesuffix(ending)
    pattern = re.compile(rf"{re.escape(stem)}-(\d+)-of-(\d+){re.escape(ending)}")
    found = {path: match for path in sorted(whole.parent.glob("*")) if (match := pattern.fullmatch(path.name))}
    counts = sorted({int(match[2]) for match in found.values()})
    name = whole.with_name(whole.name.removesuffix(_JOURNAL))
    if not counts:
        example = Shard(1, 16).results_path(name)
        raise ValueError(f"{name}: has no shards, such as {example}; run some with --shard")
    if len(counts) > 1:
        numbers = " and ".join(map(str, counts))
        raise ValueError(f"{name}: there are shards of different runs, in {numbers} parts; delete those of one run")
    missing = sorted({*range(1, counts[0] + 1)} - {int(match[1]) for match in found.values()})
    if missing and not partial:
        few = ", ".join(map(str, missing[:5])) + (", …" if len(missing) > 5 else "")
        what = f"shard {few} of {counts[0]} is" if len(missing) == 1 else f"shards {few} of {counts[0]} are"
        raise ValueError(f"{name}: {what} missing; run what is missing, or merge with --partial")
    return [*found]


def _merge_rows(journals: Sequence[Journal]) -> Iterator[Row]:
    merged = heapq.merge(*(journal.rows() for journal in journals), key=lambda entry: entry[0])
    for _, entries in groupby(merged, key=lambda entry: entry[0]):
        _, _, row = max(entries, key=lambda entry: ("error" not in entry[2], entry[1]))
        yield row
