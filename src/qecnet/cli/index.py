"""`qec index`: an index of a folder of shapes that `qec search` searches."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qecnet.cli._bulk import share_answers
from qecnet.cli._files import count_processes, find_shapes, find_shapes_in, with_progress
from qecnet.cli._interrupts import quiet_interrupts
from qecnet.cli._options import DEFAULT_MODEL, INDEX, INDEX_0_1, IndexPath, Listed, ModelName, RayAddress, Workers
from qecnet.cli._output import one_sentence, printable

if TYPE_CHECKING:
    from qecnet.models import Failure


def index(
    folder: Annotated[Path, typer.Argument(help="Folder of shapes, searched with its subfolders.")],
    model: ModelName = DEFAULT_MODEL,
    index_path: IndexPath = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an index that is damaged or was made with another model.")
    ] = False,
    listed: Listed = None,
    workers: Workers = None,
    ray: RayAddress = None,
) -> None:
    """Index a folder of shapes for qec search.

    Example: qec index meshes/

    Run it again when files have changed: only new and changed files are processed, renamed and removed ones are
    noticed, and an interrupted run continues where it stopped. A file that cannot be read is reported, the others are
    indexed, and the exit code is 1. With --from, the index has the listed files only, which are below the folder.
    """
    with one_sentence():
        if not folder.is_dir():
            raise ValueError(f"{folder}: is not a folder; give the folder of a library")
        with quiet_interrupts():
            from qecnet.bulk import check_address
            from qecnet.models import Failure, edit_library, extend, load
        if ray:
            check_address(ray)
        path, loaded = index_path or folder / INDEX, load(model)
        if not path.parent.is_dir():
            raise ValueError(f"{path}: there is no folder {path.parent}; create it first")
        with edit_library(path, loaded, replace=force) as library:
            if (old := folder / INDEX_0_1).exists():
                typer.echo(f"note: {printable(str(old))}: is of version 0.1, no longer used; delete it", err=True)
            files, failures = find_shapes_in(folder) if listed is None else _find_listed(folder, listed)
            changes = library.update(folder, files)
            for failure in failures:
                typer.echo(f"qec: {printable(failure.error)}", err=True)
            missing, unread = len(changes.missing), 0
            paths = [str(folder / name) for name in changes.missing]
            answers = share_answers(loaded, paths, ray, workers or count_processes(missing))
            with closing(extend(library, loaded, folder, changes.missing, answers)) as results:
                for result in with_progress(results, "indexing", missing):
                    if isinstance(result, Failure):
                        unread += 1
                        typer.echo(f"qec: {printable(result.error)}", err=True)
            total = len(library)
        counts = f"{missing - unread:,} new or changed, {changes.unchanged:,} unchanged, {changes.removed:,} removed"
        if changes.renamed:
            counts += f", {changes.renamed:,} renamed"
        typer.echo(f"{printable(str(path))}: {total:,} shapes ({counts})")
        if failures or unread:
            raise typer.Exit(1)


def _find_listed(folder: Path, listed: str) -> tuple[list[Path], list[Failure]]:
    """The files of a list; those that are missing or not below the folder are failures."""
    from qecnet.models import Failure

    found, failures = find_shapes([], listed)
    files: dict[Path, None] = {}
    for path in found:
        if not path.is_file():
            failures.append(Failure(str(path), f"{path}: is no file; correct the list"))
        elif not path.is_relative_to(folder):
            failures.append(Failure(str(path), f"{path}: is not below {folder}; correct the list"))
        else:
            files[path] = None  # each once
    return [*files], failures
