"""Opening libraries: to search one, to add to one, and to join several."""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from qecnet.files import alone_in
from qecnet.models.library.catalogue import Catalogue
from qecnet.models.library.database import ROWS
from qecnet.models.library.graph import own_files
from qecnet.models.library.records import About
from qecnet.models.library.shape_library import Library, describe_model
from qecnet.models.model import Model


def read_library(path: Path) -> Library:
    """Open a library to search it.

    Args:
        path: its folder.

    Returns:
        The library, to be used in a `with` block.

    Raises:
        ValueError: for a library that is damaged or missing; one sentence that names it.
    """
    _refuse_file(path)
    if not (path / ROWS).is_file():
        raise ValueError(f"{path}: is not an index of shapes; build one with qec index")
    return Library(path, Catalogue(path))


def edit_library(path: Path, model: Model, *, replace: bool = False) -> Library:
    """Open a library to add shapes to it, or create it.

    Args:
        path: its folder, which may not exist yet.
        model: the model that it is made with.
        replace: whether to begin with an empty library where there is one already.

    Returns:
        The library, to be used in a `with` block.

    Raises:
        ValueError: for a library that is damaged or was made with another model.
        OSError: if another process is adding to it, or it cannot be written; one sentence.
    """
    return _edit(path, describe_model(model), replace)


def merge_libraries(path: Path, parts: Sequence[Path], *, replace: bool = False, partial: bool = False) -> None:
    """Join libraries of one model, such as those of shards, into a new one.

    Args:
        path: the folder of the new one.
        parts: their folders. Of shapes with the same path, the last one is kept.
        replace: whether to begin with an empty library where there is one already.
        partial: whether to take libraries that are not finished.

    Raises:
        ValueError: one of them is not finished, damaged or of another model; one sentence.
        OSError: the new one cannot be written; one sentence.
    """
    with read_library(parts[0]) as first:
        about = first._rows.about
    for part in parts:
        with read_library(part) as library:
            if not library._rows.about.fits(about):
                raise ValueError(f"{part}: was made with different weights from {parts[0]}; merge shards of one run")
            if not library.finished and not partial:
                raise ValueError(f"{part}: is not finished; run this shard again, or merge with --partial")
    with _edit(path, about, replace) as whole:
        for part in parts:
            with read_library(part) as library:
                whole.absorb(library)
        whole.finish()


def _edit(path: Path, about: About, replace: bool) -> Library:
    _refuse_file(path)
    try:
        path.mkdir(exist_ok=True)
        if not (path / ROWS).exists() and any(name not in own_files(path) for name in path.iterdir()):
            raise ValueError(f"{path}: is a folder with other files; give a new folder for the index")
        with ExitStack() as stack:
            stack.enter_context(alone_in(path, wait=False))
            if replace:
                for file in own_files(path):
                    file.unlink()
            library = Library(path, Catalogue(path, about))
            library._resources.push(stack.pop_all())
    except BlockingIOError as error:
        raise OSError(f"{path}: another process is adding to this index; try again when it has finished") from error
    except OSError as error:
        if error.errno is None:
            raise
        reason = os.strerror(error.errno).lower()
        raise OSError(f"{path}: cannot be written ({reason}); name another folder with --index") from error
    if not library._rows.about.fits(about):
        library.close()
        raise ValueError(f"{path}: was made with other weights ({library.model}); replace it with --force")
    library._graph.remove_unused()
    return library


def _refuse_file(path: Path) -> None:
    if path.is_file():
        raise ValueError(f"{path}: is a file, but an index is a folder; give another path")
