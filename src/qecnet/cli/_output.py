"""What the commands share: one-sentence failures, and files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turns what users can mend (bad input, unwritable output) into one sentence on stderr and exit code 1."""
    try:
        yield
    except (ValueError, OSError) as error:
        typer.echo(f"qec: {error}", err=True)
        raise typer.Exit(1) from error


LARGEST_SEED = 2**63 - 1
MOST_POINTS = 10_000_000


def check_writable(path: Path, force: bool, suffixes: tuple[str, ...]) -> None:
    """Refuses, before any work is done, a file that is in the way or of a kind that cannot be written."""
    if path.suffix.lower() not in suffixes:
        raise ValueError(f"{path}: cannot write this kind of file; name it {' or '.join('*' + s for s in suffixes)}")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}; make it first")
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; name a file")
    if path.exists() and not force:
        raise ValueError(f"{path}: exists already; name another file, or overwrite it with --force")


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`, renamed to it when the block has finished, removed when it fails."""
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    aside = Path(name)
    try:
        yield aside
        umask = os.umask(0)
        os.umask(umask)
        aside.chmod(0o666 & ~umask)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
