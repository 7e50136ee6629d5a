"""Results that are kept as they come, so that a run that was stopped goes on behind the last of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def unfinished(path: Path, key: str) -> Iterator[tuple[BinaryIO, int]]:
    """A file that begins with a line, the key: with what it has of the same key, or begun anew. → it, its beginning"""
    line = key.encode() + b"\n"
    with path.open("a+b") as file:
        file.seek(0)
        if file.read(len(line)) != line:
            file.truncate(0)
            file.write(line)
        yield file, len(line)
