"""The codes of a large library's descriptors in one file of usearch: a matrix and an HNSW graph, both memory-mapped.

Codes have 96 bytes, and their distances are coarse: the best are then compared exactly.

usearch trusts its files, and a wrong number in a graph would make it read anywhere in memory. The file is therefore
checked before it is opened: it has to be exactly what `write_vectors` writes, and each edge has to lead to a node.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from qecnet.files import replace_when_done
from qecnet.models.library.records import Floats, Keys
from qecnet.schema import first_line, needing_extra

if TYPE_CHECKING:
    from usearch.index import Index

_MOST = 96
"""Bytes of a code, unless descriptors are shorter: their variance lies in fewer directions than they have values."""
_LARGEST = 127
_SANE = 1e9
_EDGES, _EXPANSION_ADD, _EXPANSION_SEARCH = 14, 64, 512
_CHUNK = 1 << 13
"""Nodes that are checked at once."""
_MATRIX = np.dtype([("rows", "<u4"), ("bytes", "<u4")])
_HEAD = np.dtype(
    [
        *(("magic", "S7"), ("version", "<u2", 3), ("kinds", "u1", 4)),
        *(("present", "<u8"), ("deleted", "<u8"), ("width", "<u8"), ("multi", "u1"), ("unused", "V22")),
    ]
)
_GRAPH = np.dtype([(name, "<u8") for name in ("size", "edges", "base_edges", "top_level", "entry")])
_UPPER = np.dtype([("count", "<u4"), ("slots", "<u4", _EDGES)])
_NODE = np.dtype([("key", "<u8"), ("level", "<i2"), ("count", "<u4"), ("slots", "<u4", 2 * _EDGES)])


class Codes:
    """A linear map to small integers: principal axes, rotated at random so that all have similar variances.

    Attributes:
        width: K, the number of bytes of a code.
    """

    def __init__(self, table: Floats) -> None:
        """Take a map, (D + 1, K), float32: a matrix, and the image of the mean in the last row."""
        self._table = table
        self.width = table.shape[1]

    @classmethod
    def fit(cls, descriptors: Floats) -> Codes:
        """Find the map for descriptors like these, (N, D)."""
        mean = descriptors.mean(0, dtype=np.float64)
        centred = descriptors - mean
        _, axes = np.linalg.eigh(centred.T @ centred)  # ascending
        axes = axes[:, -_MOST:]
        width = axes.shape[1]
        rotation, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((width, width)))
        axes = axes @ rotation
        axes *= _LARGEST / max(float(np.abs(centred @ axes).max()), 1e-6)
        return cls(np.vstack((axes, mean @ axes)).astype("<f4"))

    @classmethod
    def from_bytes(cls, data: bytes, width: int) -> Codes:
        """Read a result of `to_bytes` for descriptors of this width.

        Raises:
            ValueError: if it is not one.
        """
        shape = width + 1, min(width, _MOST)
        if len(data) != 4 * shape[0] * shape[1]:
            raise ValueError("its codes have the wrong width")
        table = np.frombuffer(data, "<f4").reshape(shape)
        if not (np.abs(table) < _SANE).all():
            raise ValueError("its codes are not finite")
        return cls(table)

    def to_bytes(self) -> bytes:
        """The map, to store it."""
        return self._table.tobytes()

    def encode(self, descriptors: Floats) -> NDArray[np.int8]:
        """(..., D) → (..., K)"""
        values = np.rint(descriptors @ self._table[:-1] - self._table[-1])
        return np.asarray(values.clip(-_LARGEST, _LARGEST), np.int8)


class Vectors:
    """An open file.

    Attributes:
        path: the file.
        count: N, the number of codes in it.
        last: the largest key.

    Raises:
        ValueError: for a file that is damaged or missing; one sentence that names it.
    """

    def __init__(self, path: Path, codes: Codes) -> None:
        self.path, self.codes = path, codes
        self._index = _new_index(codes.width)
        try:
            with path.open("rb") as file:
                self.count, self.last = _check_file(file, codes.width)
            self._index.view(path)
        except FileNotFoundError as error:
            raise ValueError(f"{path}: is missing; repair the index with qec index") from error
        except (OSError, RuntimeError, ValueError) as error:
            raise ValueError(f"{path}: is damaged ({first_line(error)}); repair the index with qec index") from error

    def search(self, query: Floats, count: int) -> Keys:
        """The keys of the codes that are nearest to that of (D,), approximately, best first. → (at most count,)"""
        code = self.codes.encode(query)
        return self._index.search(code, min(count, self.count), threads=1).keys.astype(np.int64)

    def close(self) -> None:
        """Unmap the file."""
        self._index.reset()  # type: ignore[no-untyped-call]


def write_vectors(path: Path, codes: Codes, blocks: Iterable[tuple[Keys, Floats]], before: Vectors | None) -> None:
    """Write codes of descriptors and the graph to search them, whole or not at all.

    `blocks` are keys (M,) and descriptors (M, D), some at a time; the content of the file `before` comes first.
    """
    index = _new_index(codes.width)
    with replace_when_done(path) as aside:
        try:
            if before is not None:
                index.load(before.path)
            for keys, descriptors in blocks:
                index.add(keys.astype(np.uint64), codes.encode(descriptors), threads=1)  # one thread: always one graph
            index.save(aside)
        except RuntimeError as error:
            raise OSError(f"{path}: cannot be written ({first_line(error)}); what was added before is kept") from error
        with aside.open("rb") as file:
            os.fsync(file.fileno())


def _new_index(width: int) -> Index:
    with needing_extra("an index of more than 100,000 shapes needs usearch", "search"):
        from usearch.index import Index
    return Index(
        ndim=width,
        metric="l2sq",
        dtype="i8",
        connectivity=_EDGES,
        expansion_add=_EXPANSION_ADD,
        expansion_search=_EXPANSION_SEARCH,
        enable_key_lookups=False,
    )


def _check_file(file: BinaryIO, width: int) -> tuple[int, int]:
    """Raise a ValueError unless a file is safe to search. → its number of codes, and its largest key"""
    matrix = _read(file, _MATRIX)[0]
    count, start = int(matrix["rows"]), file.tell()
    if count == 0 or matrix["bytes"] != width:
        raise ValueError(f"its rows do not have {width} values")
    file.seek(start + count * width)
    head, graph = _read(file, _HEAD)[0], _read(file, _GRAPH)[0]
    if head["magic"] != b"usearch" or head["version"][0] != 2 or tuple(head["kinds"]) != _kinds():
        raise ValueError("it was not written by this version of usearch")
    if (head["present"], head["deleted"], head["width"], head["multi"]) != (count, 0, width, 0):
        raise ValueError("its header does not match its rows")
    if (graph["size"], graph["edges"], graph["base_edges"]) != (count, _EDGES, 2 * _EDGES):
        raise ValueError("its graph does not match its rows")
    levels = _read(file, np.dtype("<i2"), count)
    if graph["entry"] >= count or levels.min() < 0 or levels.max() > 64 or levels[graph["entry"]] != graph["top_level"]:
        raise ValueError("its graph has no valid entry point")
    last = max(_check_nodes(file, levels, at) for at in range(0, count, _CHUNK))
    if file.read(1):
        raise ValueError("it has data after its end")
    if last >= 2**63:
        raise ValueError("its keys are too large")
    return count, last


def _check_nodes(file: BinaryIO, levels: NDArray[np.int16], first: int) -> int:
    """Check the edges of a chunk of nodes, which begin where the file is. → their largest key"""
    own = levels[first : first + _CHUNK].astype(np.int64)
    sizes = _NODE.itemsize + own * _UPPER.itemsize
    starts = np.cumsum(sizes) - sizes
    data = file.read(int(sizes.sum()))
    nodes = _at(data, _NODE, starts)
    if (nodes["level"] != own).any() or (nodes["count"] > 2 * _EDGES).any() or (nodes["slots"] >= len(levels)).any():
        raise ValueError("an edge of its graph leads to no node")
    for level in range(1, int(own.max()) + 1):
        upper = _at(data, _UPPER, starts[own >= level] + _NODE.itemsize + (level - 1) * _UPPER.itemsize)
        if (upper["count"] > _EDGES).any():
            raise ValueError("a node of its graph has too many edges")
        slots = upper["slots"][np.arange(_EDGES) < upper["count"][:, None]]
        if (slots >= len(levels)).any() or (levels[slots] < level).any():
            raise ValueError("an edge of its graph leads to no node")
    return int(nodes["key"].max())


def _at(data: bytes, kind: np.dtype[Any], starts: NDArray[np.int64]) -> NDArray[Any]:
    """Copy the records that begin at these bytes, aligned or not."""
    if starts.max() + kind.itemsize > len(data):
        raise ValueError("it is truncated")
    return np.ndarray((len(data) - kind.itemsize + 1,), kind, data, strides=(1,))[starts]


def _read(file: BinaryIO, kind: np.dtype[Any], count: int = 1) -> NDArray[Any]:
    left = os.fstat(file.fileno()).st_size - file.tell()
    if left < count * kind.itemsize:
        raise ValueError("it is truncated")
    return np.frombuffer(file.read(count * kind.itemsize), kind)


def _kinds() -> tuple[int, ...]:
    """How usearch numbers the metric, the values, the keys and the edges that we use."""
    from usearch.compiled import MetricKind, ScalarKind

    kinds = MetricKind.L2sq, ScalarKind.I8, ScalarKind.U64, ScalarKind.U32
    return tuple(int(kind.value) for kind in kinds)
