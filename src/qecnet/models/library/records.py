"""Records of a library: its rows, the stamps of its files, and the model that it was made with."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qecnet.models.answer import Answer, Failure
from qecnet.schema import check_names, system_reason

Floats = NDArray[np.floating[Any]]
Keys = NDArray[np.int64]

UNIT = 1e-3
"""How far the length of a descriptor or a pose may be from 1."""


class Stamp(NamedTuple):
    """Identifies a version of a file.

    Attributes:
        size: in bytes.
        modified: its modification time, in nanoseconds.
        digest: a hash of its content; empty if that is not known.
    """

    size: int
    modified: int
    digest: bytes = b""


class Hashed(NamedTuple):
    """The result for a file, with a hash of the file.

    Attributes:
        result: the answer or the failure.
        digest: a hash of the file's content, by which it is recognised under another name; empty if not known.
    """

    result: Answer | Failure
    digest: bytes = b""


class ShapeRow(NamedTuple):
    """A shape's path relative to the library's folder, its class and confidence, and its pose, WXYZ."""

    path: str
    label: str
    confidence: float
    pose: Floats


class Changes(NamedTuple):
    """Numbers of files, by what has happened to them since a library was last updated.

    Attributes:
        missing: new or changed, to be indexed.
        unchanged: as they were.
        renamed: with the same content under another name.
        removed: in the library, but no longer on the disk.
        failed_before: that failed before and have not changed since.
    """

    missing: int
    unchanged: int
    renamed: int
    removed: int
    failed_before: int


@dataclass(frozen=True)
class About:
    """The model that a library was made with: its name, its hash, its classes, the width of its descriptors."""

    model: str
    key: str
    classes: tuple[str, ...]
    width: int

    def __post_init__(self) -> None:
        check_names("classes", self.classes)
        check_names("model", [self.model])
        if not 0 < self.width <= 65_536:
            raise ValueError(f"width is {self.width}; it must be from 1 to 65,536")

    def fits(self, other: About) -> bool:
        """Whether libraries are of the same model, whatever its name is."""
        return (self.key, self.classes, self.width) == (other.key, other.classes, other.width)


def check_path(path: str) -> None:
    """Raise a ValueError unless a path leads into the folder that it is relative to."""
    pure = PurePosixPath(path) if isinstance(path, str) else None
    if not path or pure is None or "\0" in path or pure.is_absolute() or ".." in pure.parts:
        raise ValueError("a path is invalid or outside the folder of the library")


def read_stamp(path: str | Path) -> Stamp:
    """Read the size and the modification time of a file; not its content.

    Args:
        path: the file.

    Returns:
        Its stamp.

    Raises:
        OSError: if the file cannot be accessed; one sentence.
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        reason = system_reason(error)
        remedy = "correct the path"
        if os.path.islink(path):
            remedy = "restore what this link leads to, or delete it"
        elif isinstance(error, PermissionError):
            remedy = "change the permissions"
        raise OSError(f"{path}: cannot be read ({reason}); {remedy}") from error
    return Stamp(status.st_size, status.st_mtime_ns)


def hash_file(path: Path) -> bytes:
    """Hash a file's content, to recognise it under another name; empty if it cannot be read."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError:
        return b""
    return digest.digest()


def hash_answer(answer: Answer) -> Hashed:
    """Add the hash of its file to an answer; for the process that has just read the file.

    Args:
        answer: for a file.

    Returns:
        The answer with the hash.
    """
    return Hashed(answer, hash_file(Path(answer.name)))
