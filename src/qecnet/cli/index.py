"""`qec index`: descriptors of a folder of shapes, in one file that `qec search` reads."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qecnet.cli._files import count_processes, find_shapes_in, with_progress
from qecnet.cli._interrupts import quiet_interrupts
from qecnet.cli._options import DEFAULT_MODEL, INDEX, IndexPath, ModelName, Workers
from qecnet.cli._output import one_sentence, printable

if TYPE_CHECKING:
    from qecnet.models import Library, Model


def index(
    folder: Annotated[Path, typer.Argument(help="Folder of shapes, searched with its subfolders.")],
    model: ModelName = DEFAULT_MODEL,
    index_path: IndexPath = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an index that is damaged or was made with another model.")
    ] = False,
    workers: Workers = None,
) -> None:
    """Index a folder of shapes for qec search.

    Example: qec index meshes/

    Run it again when files have changed: only new and changed files are processed, and an interrupted run continues
    where it stopped. A file that cannot be read is reported, the others are indexed, and the exit code is 1.
    """
    with one_sentence():
        if not folder.is_dir():
            raise ValueError(f"{folder}: is not a folder; give the folder of a library")
        with quiet_interrupts():
            from qecnet.files import alone_in
            from qecnet.models import Failure, extend, load, stamps_of
        path, loaded = index_path or folder / INDEX, load(model)
        if not path.parent.is_dir():
            raise ValueError(f"{path}: there is no folder {path.parent}; create it first")
        with alone_in(path.parent, wait=True):
            before = _read_index(path, loaded, force)
            files, failures = find_shapes_in(folder)
            stamps = stamps_of(folder, files)
            kept = before.unchanged(stamps)
            missing = len(stamps) - len(kept.files)
            for failure in failures:
                typer.echo(f"qec: {printable(failure.error)}", err=True)
            with closing(extend(kept, loaded, folder, stamps, path, workers or count_processes(missing))) as results:
                unread = 0
                for result in with_progress(results, "indexing", missing):
                    if isinstance(result, Failure):
                        unread += 1
                        typer.echo(f"qec: {printable(result.error)}", err=True)
        removed = len({*before.files} - {*stamps})
        counts = f"{missing - unread:,} new or changed, {len(kept.files):,} unchanged, {removed:,} removed"
        typer.echo(f"{printable(str(path))}: {len(stamps) - unread:,} shapes ({counts})")
        if failures or unread:
            raise typer.Exit(1)


def _read_index(path: Path, model: Model, force: bool) -> Library:
    """The index as it is, or an empty one."""
    from qecnet.models import empty_library, read_library

    if force or not path.exists():
        return empty_library(model)
    library = read_library(path)
    if not library.fits(model):
        raise ValueError(f"{path}: was made with other weights ({library.model}); replace it with --force")
    return library
