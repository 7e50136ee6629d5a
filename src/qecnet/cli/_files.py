"""What commands on many files share: which files are meant, and how far they have come."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, TypeVar

import torch
import typer
from rich.console import Console
from rich.progress import Progress

from qecnet.algebra import to_rotvec
from qecnet.datasets.folder import SUFFIXES, counts
from qecnet.models import Failure

T = TypeVar("T")
_FEW = 32

Files = Annotated[list[str], typer.Argument(help="Files, folders (searched with their subfolders) and globs.")]
ModelName = Annotated[str, typer.Option("--model", help="A name of qec models, or the path of weights or of a run.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes; one for few files, else one for each core.")]


def shape_files(arguments: Iterable[str]) -> tuple[list[Path], list[Failure]]:
    """The files that are meant, in order, and the folders and globs that hold none."""
    files: list[Path] = []
    failures = []
    for argument in arguments:
        path = Path(argument)
        if path.is_dir():
            found = shapes_in(path)
            why = f"holds no file that can be read ({', '.join(SUFFIXES)})"
        else:
            matching = not path.exists() and glob.has_magic(argument)
            found = [Path(name) for name in sorted(glob.glob(argument, recursive=True))] if matching else [path]
            why = "matches no file"
        files += found
        if not found:
            failures.append(Failure(argument, f"{argument}: {why}; give other files"))
    return files, failures


def shapes_in(folder: Path) -> list[Path]:
    """Every file below a folder with the extension of a format that is read, but for hidden ones and READMEs."""
    found = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    return sorted(path for path in found if all(map(counts, path.relative_to(folder).parts)))


def watched(results: Iterable[T], told: str, total: int, *, silent: bool = False) -> Iterator[T]:
    """With a progress bar on standard error, where that is a terminal; what is printed meanwhile is left alone."""
    silent = silent or total < 2 or not sys.stderr.isatty()
    with Progress(console=Console(stderr=True), transient=True, redirect_stdout=False, disable=silent) as bar:
        yield from bar.track(results, total, description=told)


def shown(name: str) -> str:
    """A file's name as a terminal may print it: nothing in it moves the cursor."""
    return "".join(c if c.isprintable() else "?" for c in name)


def processes(files: int) -> int:
    """How many are worth starting: few files are done before another process would have begun."""
    return 1 if files <= _FEW else os.cpu_count() or 1


def angle_about_axis(pose: list[float]) -> str:
    """A rotation, WXYZ, for people: `90° about (0.00, 0.00, 1.00)`."""
    turn = to_rotvec(torch.tensor(pose, dtype=torch.float64))
    angle = float(turn.norm())
    x, y, z = (turn / angle).tolist() if angle > 1e-9 else (0.0, 0.0, 1.0)
    return f"{torch.rad2deg(turn.norm()):.0f}° about ({x:.2f}, {y:.2f}, {z:.2f})"
