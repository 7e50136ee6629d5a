"""`qec index`: descriptors of a folder of shapes, in one file that `qec search` asks."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from qecnet.cli._files import ModelName, Workers, processes, shapes_in, shown, watched
from qecnet.cli._output import one_sentence
from qecnet.files import alone_in
from qecnet.models import DEFAULT, Failure, load
from qecnet.models.library import Library, empty_library, extend, read_library, stamps_of
from qecnet.models.model import Model

INDEX = "qec-index.safetensors"


def index(
    folder: Annotated[Path, typer.Argument(help=f"A folder of shapes with its subfolders; the index is its {INDEX}.")],
    model: ModelName = DEFAULT,
    force: Annotated[
        bool, typer.Option("--force", help="Make an index of another model, or a damaged one, anew.")
    ] = False,
    workers: Workers = None,
) -> None:
    """Look at every shape of a folder, so that qec search finds them. Example: qec index library/

    Files that have not changed since are not looked at again, and an interrupted run goes on where it was. Exit code 1
    tells that a file could not be read; the others are there.
    """
    with one_sentence():
        if not folder.is_dir():
            raise ValueError(f"{folder}: is no folder; give the folder of a library")
        path, loaded, failures = folder / INDEX, load(model), 0
        with alone_in(folder, wait=True):
            before = _known(path, loaded, force)
            stamps = stamps_of(folder, shapes_in(folder))
            kept = before.unchanged(stamps)
            missing = len(stamps) - len(kept.files)
            with closing(extend(kept, loaded, folder, stamps, path, workers or processes(missing))) as results:
                for result in watched(results, "indexing", missing):
                    if isinstance(result, Failure):
                        failures += 1
                        typer.echo(f"qec: {shown(result.error)}", err=True)
        gone = len({*before.files} - {*stamps})
        told = f"{missing - failures:,} new or changed, {len(kept.files):,} as they were, {gone:,} gone"
        typer.echo(f"{path}: {len(stamps) - failures:,} shapes ({told})")
        if failures:
            raise typer.Exit(1)


def _known(path: Path, model: Model, force: bool) -> Library:
    """What is in the index already."""
    empty = empty_library(model)
    if force or not path.exists():
        return empty
    library = read_library(path)
    if library.key != empty.key:
        raise ValueError(f"{path}: was made by other weights ({library.model}); make it anew with --force")
    return library
