"""What commands on many files share: which files are meant, and a progress bar."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from qecnet.cli._interrupts import quiet_interrupts
from qecnet.cli._options import INDEX
from qecnet.cli._output import printable

if TYPE_CHECKING:
    from qecnet.models import Failure

T = TypeVar("T")
_FEW = 32
_NUMBER = rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
_THREE_NUMBERS = re.compile(rb"^\s*%b([\s,;]+%b){2}" % (_NUMBER, _NUMBER), re.MULTILINE)
_TEXT = (".txt", ".csv")


def find_shapes(arguments: Iterable[str]) -> tuple[list[Path], list[Failure]]:
    """Lists the files that arguments (files, folders, glob patterns) refer to, in order.

    Returns:
        The files; and a failure for each argument that has none and each folder that cannot be opened.
    """
    with quiet_interrupts():
        from qecnet.models import Failure
    files: list[Path] = []
    failures: list[Failure] = []
    for argument in arguments:
        path = Path(argument)
        if path.is_dir():
            found, unreadable = find_shapes_in(path)
            failures += unreadable
            why = "contains no file of a supported format"
        else:
            matching = not path.exists() and glob.has_magic(argument)
            found = [Path(name) for name in sorted(glob.glob(argument, recursive=True))] if matching else [path]
            why = "matches no file"
        files += found
        if not found:
            failures.append(Failure(argument, f"{argument}: {why}; give other files"))
    return files, failures


def find_shapes_in(folder: Path) -> tuple[list[Path], list[Failure]]:
    """Lists the shape files below a folder, sorted, and says on standard error how many other files there are.

    Hidden files and READMEs are left out silently; so is the index of `qec index`.

    Returns:
        The files; and a failure for each folder that cannot be opened.
    """
    with quiet_interrupts():
        from qecnet.datasets import is_ignored
        from qecnet.formats import SUFFIXES
        from qecnet.models import Failure
    found: list[Path] = []
    skipped: list[str] = []
    failures: list[Failure] = []

    def fail(error: OSError) -> None:
        reason = (error.strerror or str(error)).lower()
        failures.append(
            Failure(error.filename, f"{error.filename}: cannot be opened ({reason}); change its permissions")
        )

    for place, folders, names in os.walk(folder, onerror=fail):
        folders[:] = [name for name in folders if not is_ignored(name) and name != INDEX]
        for path in (Path(place, name) for name in names if not is_ignored(name)):
            suffix = path.suffix.lower()
            if suffix in SUFFIXES and (suffix not in _TEXT or _has_points(path)):
                found.append(path)
            else:
                skipped.append(suffix or "no extension")
    if skipped:
        files = "1 file" if len(skipped) == 1 else f"{len(skipped):,} files"
        kinds = ", ".join(sorted({*skipped}))
        typer.echo(printable(f"note: {folder}: {files} skipped: {kinds}"), err=True)
    return sorted(found), failures


def _has_points(path: Path) -> bool:
    """Whether a text file begins with lines of three numbers or more; a file that cannot be opened may have."""
    try:
        with path.open("rb") as file:
            return _THREE_NUMBERS.search(file.read(4096)) is not None
    except OSError:
        return True


def with_progress(results: Iterable[T], task: str, total: int, *, silent: bool = False) -> Iterator[T]:
    """Shows a progress bar on standard error while results are consumed, if that is a terminal."""
    if silent or total < 2 or not sys.stderr.isatty():
        yield from results
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        yield from bar.track(results, total, description=task)


def count_processes(files: int) -> int:
    """How many worker processes are worth starting: a few files are done before another process has started."""
    return 1 if files <= _FEW else os.cpu_count() or 1
