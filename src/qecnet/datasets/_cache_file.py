"""The format of a file of frames: a header that describes them, then one record for each shape, with a checksum.

The header follows from the settings, so a file with the same header holds the same frames. A file that is being built
has the same format and fewer records, so that a build resumes where the records end.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

_MAGIC = b"QECFRAMES 1\n"
_PAGE = 4096
_CHECKSUM = 4  # bytes, at the end of a record


@dataclass(frozen=True)
class Layout:
    """The content of a header.

    Attributes:
        key: everything that the frames depend on.
        classes, names, labels: of the shapes, in the order of the records.
        subsamplings, frames, candidates: the sizes of a record.
    """

    key: dict[str, Any]
    classes: list[str]
    names: list[str]
    labels: list[int]
    subsamplings: int
    frames: int
    candidates: int

    @cached_property
    def header(self) -> bytes:
        text = json.dumps({name: getattr(self, name) for name in self.__dataclass_fields__}, sort_keys=True).encode()
        start = _MAGIC + np.array([len(text), zlib.crc32(text)], "<u4").tobytes() + text
        return start.ljust(-(-len(start) // _PAGE) * _PAGE, b" ")

    @cached_property
    def subsampling(self) -> np.dtype[np.void]:
        """The tensors of one `OrientedPoints`."""
        return np.dtype(
            [
                ("positions", "<f4", (self.frames, 3)),
                ("frames", "<f4", (self.frames, 4)),
                ("centre", "<f8", (3,)),
                ("scale", "<f8"),
                ("candidates", "<f4", (self.candidates, 4)),
                ("valid", "?", (self.frames,)),
            ]
        )

    @property
    def record(self) -> np.dtype[np.void]:
        return np.dtype([("subsamplings", self.subsampling, (self.subsamplings,)), ("checksum", f"V{_CHECKSUM}")])

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return len(self.header) + len(self.labels) * self.record.itemsize


def sealed(record: bytes, index: int) -> bytes:
    """A record's bytes with their checksum, which also depends on the position in the file."""
    return record + zlib.crc32(record, index).to_bytes(_CHECKSUM, "little")


def good_records(path: Path, layout: Layout) -> int:
    """Count the undamaged records from the first on; −1 where the header is not the one of `layout`."""
    try:
        with path.open("rb") as file:
            if file.read(len(layout.header)) != layout.header:
                return -1
    except FileNotFoundError:
        return -1
    size = layout.record.itemsize
    count = min((path.stat().st_size - len(layout.header)) // size, len(layout.labels))
    if count == 0:
        return 0
    rows = np.memmap(path, np.uint8, "r", len(layout.header), (count, size))
    for index, row in enumerate(rows):
        if zlib.crc32(row[:-_CHECKSUM], index) != int.from_bytes(row[-_CHECKSUM:].tobytes(), "little"):
            return index
    return count


def is_whole(path: Path, layout: Layout) -> bool:
    return good_records(path, layout) == len(layout.labels) and path.stat().st_size == layout.size


def read_layout(path: Path) -> Layout:
    """Read the header of a file; a ValueError if there is none."""
    with path.open("rb") as file:
        start = file.read(len(_MAGIC) + 8)
        length, checksum = np.frombuffer(start[len(_MAGIC) :].ljust(8, b"\0"), "<u4").tolist()
        text = file.read(length)
    if not start.startswith(_MAGIC) or zlib.crc32(text) != checksum:
        raise ValueError(f"{path}: is not a frame cache, or is damaged; delete it and build it again")
    layout = Layout(**json.loads(text))
    if path.stat().st_size != layout.size:
        raise ValueError(f"{path}: is truncated; delete it and build the frame cache again")
    return layout
