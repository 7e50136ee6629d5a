"""What commands on many files share: which files are meant, and a progress bar."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from qecnet.cli._options import INDEX
from qecnet.cli._output import count_of
from qecnet.schema import printable, system_reason
from qecnet.streams import STANDARD_INPUT

if TYPE_CHECKING:
    from qecnet.models import Failure

T = TypeVar("T")
_FEW = 32
NO_FILES = "no files were given; name files, folders or patterns, or a list with --from"
_NUMBER = rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
_THREE_NUMBERS = re.compile(rb"^\s*%b([\s,;]+%b){2}" % (_NUMBER, _NUMBER), re.MULTILINE)
_TEXT = (".txt", ".csv")
_INDEXES = re.compile(rf"{INDEX}(-\d+-of-\d+)?")
"""Names of the folders that `qec index` writes, also with --shard."""


def find_shapes(arguments: Iterable[str], listed: str | None = None) -> tuple[list[Path], list[Failure]]:
    """List the files that arguments and a list refer to; the arguments are those of `iterate_shapes`.

    Returns:
        The files, in order; and what cannot be found or opened.
    """
    failures: list[Failure] = []
    return [*iterate_shapes(arguments, listed, failures.append)], failures


def iterate_shapes(arguments: Iterable[str], listed: str | None, fail: Callable[[Failure], None]) -> Iterator[Path]:
    """Iterate over the files that arguments and a list refer to, in order, without keeping them.

    Args:
        arguments: files, folders and glob patterns.
        listed: a text file with one path of a file or folder per line; `-` is standard input.
        fail: called for each argument that has no file and each folder that cannot be opened.

    Raises:
        ValueError: the list cannot be read, or nothing was given at all.
    """
    from qecnet.models import Failure

    empty = True
    for argument, is_pattern in chain(((one, True) for one in arguments), ((one, False) for one in _lines(listed))):
        empty = False
        path = Path(argument)
        if path.is_dir():
            found, why = _walk(path, fail), "contains no file of a supported format"
        else:
            matching = is_pattern and not path.exists() and glob.has_magic(argument)
            found = (Path(name) for name in sorted(glob.glob(argument, recursive=True))) if matching else iter([path])
            why = "matches no file"
        first = next(found, None)
        if first is None:
            fail(Failure(argument, f"{argument}: {why}; give other files"))
        else:
            yield first
            yield from found
    if empty:
        raise ValueError(NO_FILES)


def _lines(listed: str | None) -> Iterator[str]:
    """The lines of a list, without empty ones."""
    if listed is None:
        return
    try:
        with (
            sys.stdin
            if listed == STANDARD_INPUT
            else open(listed, encoding="utf-8-sig", errors="surrogateescape") as file
        ):
            yield from (line.rstrip("\r\n") for line in file if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        reason = system_reason(error)
        raise ValueError(f"{listed}: cannot be read ({reason}); give a text file with one path per line") from error


def _walk(folder: Path, fail: Callable[[Failure], None]) -> Iterator[Path]:
    """Iterate over the shape files below a folder, sorted, and print on standard error how many other files there are.

    Hidden files and READMEs are left out silently; so are indexes.
    """
    skipped: Counter[str] = Counter()
    yield from _walk_sorted(folder, fail, skipped)
    if skipped:
        files = count_of(skipped.total(), "file")
        typer.echo(printable(f"note: {folder}: {files} skipped: {', '.join(sorted(skipped))}"), err=True)


def _walk_sorted(folder: Path, fail: Callable[[Failure], None], skipped: Counter[str]) -> Iterator[Path]:
    from qecnet.datasets import is_ignored
    from qecnet.formats import SUFFIXES
    from qecnet.models import Failure

    try:
        with os.scandir(folder) as found:
            entries = sorted((entry.name, entry.is_dir(), entry.is_symlink()) for entry in found)
    except OSError as error:
        fail(Failure(str(folder), f"{folder}: cannot be opened ({system_reason(error)}); change its permissions"))
        return
    for name, is_folder, is_link in entries:
        path = folder / name
        suffix = path.suffix.lower()
        if is_ignored(name) or _INDEXES.fullmatch(name) or (is_folder and is_link):
            continue
        if is_folder:
            yield from _walk_sorted(path, fail, skipped)
        elif suffix in SUFFIXES and (suffix not in _TEXT or _has_points(path)):
            yield path
        else:
            skipped[suffix or "no extension"] += 1


def _has_points(path: Path) -> bool:
    """Whether a text file begins with lines of three numbers or more; a file that cannot be opened may have."""
    try:
        with path.open("rb") as file:
            return _THREE_NUMBERS.search(file.read(4096)) is not None
    except OSError:
        return True


def with_progress(results: Iterable[T], task: str, total: int, *, silent: bool = False) -> Iterator[T]:
    """Show a progress bar on standard error while results are consumed, if that is a terminal."""
    if silent or total < 2 or not sys.stderr.isatty():
        yield from results
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        yield from bar.track(results, total, description=task)


def count_processes(files: int) -> int:
    """How many worker processes are worth starting: a few files are done before another process has started."""
    return 1 if files <= _FEW else count_cores()


def count_cores() -> int:
    """How many cores this process may use, which a batch scheduler may have limited."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
