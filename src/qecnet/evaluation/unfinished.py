"""Results that are stored as they arrive, so that a run that was stopped resumes after the last of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def open_unfinished(path: Path, key: str) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file of unfinished results to read and to append to.

    Args:
        path: the file; its first line is the key.
        key: what the results were made from; content under another key is discarded.

    Yields:
        The file, and where its results start.
    """
    line = key.encode() + b"\n"
    with path.open("a+b") as file:
        file.seek(0)
        if file.read(len(line)) != line:
            file.truncate(0)
            file.write(line)
        yield file, len(line)
