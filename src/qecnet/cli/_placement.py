"""Where `qec orient` writes each file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from qecnet.cli._files import find_shapes
from qecnet.cli._output import refuse_output
from qecnet.streams import STANDARD_INPUT

if TYPE_CHECKING:
    from qecnet.models import Failure


class Placement(NamedTuple):
    """Where files of a bulk run go: each keeps its path below a folder that was given, or else its whole path."""

    out: str
    folders: tuple[str, ...]

    def output_of(self, file: str) -> str:
        """The file to write."""
        path = Path(file)
        folder = next((one for one in self.folders if path.is_relative_to(one)), None)
        return str(Path(self.out, _below(path) if folder is None else path.relative_to(folder)))

    def is_input(self, file: str) -> bool:
        """Whether a file is not one that was written: the output may be a folder inside the input."""
        return not Path(file).absolute().is_relative_to(Path(self.out).absolute())


def _below(path: Path) -> Path:
    """The path as one below some folder: without a root and without `..`."""
    return Path(*(part for part in path.parts if part not in (path.anchor, "..")))


def plan_outputs(
    arguments: list[str], listed: str | None, output: str, force: bool, skip_existing: bool
) -> tuple[dict[Path, Path], list[Failure]]:
    """Where each file goes, and which cannot be written.

    A file found in a folder keeps its place below that folder, and a listed one below the folder of the list's paths.
    """
    out = Path(output)
    places: dict[Path, Path] = {}
    failures: list[Failure] = []
    for argument in arguments:
        found, missing = find_shapes([argument])
        failures += missing
        folder = Path(argument)
        if not folder.is_dir():
            places |= {path: Path(path.name) for path in found}
            continue
        # The output may be a folder inside the input: what was written there before is not input.
        inside = out.resolve().is_relative_to(folder.resolve()) and out.resolve() != folder.resolve()
        own = [path for path in found if inside and path.resolve().is_relative_to(out.resolve())]
        places |= {path: path.relative_to(folder) for path in found if path not in own}
    if listed is not None:
        found, missing = find_shapes([], listed)
        failures += missing
        places |= {path: _below(path) for path in found}
    is_folder = output.endswith(("/", os.sep)) or out.is_dir()
    if not listed and len(arguments) == 1 and Path(arguments[0]) in places and not is_folder:
        targets = dict.fromkeys(places, out)
    elif out.is_file():
        raise ValueError(f"{out}: is a file; name a folder for several shapes")
    else:
        targets = {path: out / place for path, place in places.items()}
    if skip_existing:
        kept = {path: target for path, target in targets.items() if not target.exists()}
        if len(kept) < len(targets):
            typer.echo(f"note: {len(targets) - len(kept):,} of {len(targets):,} files exist already", err=True)
        targets = kept
    failures += _check_targets(targets, force)
    bad = {failure.name for failure in failures}
    return {path: target for path, target in targets.items() if str(path) not in bad}, failures


def output_suffixes(source: Path) -> tuple[str, ...]:
    """The extensions that a moved file may get: its own, and those of formats that it can be converted to."""
    from qecnet.formats import OUTPUT_SUFFIXES

    return tuple(sorted({*OUTPUT_SUFFIXES, source.suffix.lower()} - {""}))


def _check_targets(targets: dict[Path, Path], force: bool) -> Iterator[Failure]:
    """Find outputs that cannot be written, before any work is done."""
    from qecnet.files import find_write_obstacle
    from qecnet.models import Failure

    taken: set[Path] = set()
    obstacles = {folder: find_write_obstacle(folder) for folder in {target.parent for target in targets.values()}}
    for path, target in targets.items():
        error = refuse_output(target, force, output_suffixes(path), obstacles[target.parent])
        if str(path) == STANDARD_INPUT and target.name == STANDARD_INPUT:
            error = f"{path}: has no name; name the output file"
        elif not error and target in taken:
            error = f"{path}: would be written to {target}, as another file is; orient it separately"
        taken.add(target)
        if error:
            yield Failure(str(path), error)
