"""The parts of a file format, and arrays as the text and the bytes that several formats write."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qecnet.formats._parts import Parts
from qecnet.formats.motion import Motion
from qecnet.geometry import Mesh, PointCloud

Recogniser = Callable[[bytes, bytes], bool]


@dataclass(frozen=True)
class Format:
    """A file format: how it is recognised, read, moved and written.

    Attributes:
        suffixes: lower-case extensions, with the dot.
        matches: whether a file is of this format, from all of its bytes and from its first text without comments.
        parse: the arrays in a file's bytes; raises `Malformed`.
        move: the same file with its points and normals moved and all else as it was. It is given only bytes that
            `parse` has accepted. None where a file can only be converted.
        encode_mesh, encode_cloud: the bytes of a file that holds this shape; None where a format cannot hold it.
    """

    suffixes: tuple[str, ...]
    matches: Recogniser
    parse: Callable[[bytes], Parts]
    move: Callable[[bytes, Motion], bytes] | None = None
    encode_mesh: Callable[[Mesh], bytes] | None = None
    encode_cloud: Callable[[PointCloud], bytes] | None = None


def has_signature(*signatures: bytes) -> Recogniser:
    """Recognise files by their first bytes."""
    return lambda data, text: data.startswith(signatures)


def has_start(pattern: bytes) -> Recogniser:
    """Recognise files by a regular expression that their first text matches."""
    start = re.compile(pattern)
    return lambda data, text: start.match(text) is not None


def cloud_table(cloud: PointCloud) -> NDArray[Any]:
    """(N, 3) points, or (N, 6) with normals, in the dtype of the points."""
    points = cloud.points.numpy(force=True)
    if cloud.normals is None:
        return points
    return np.hstack([points, cloud.normals.numpy(force=True).astype(points.dtype)])


def encode_little_endian(table: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(table, table.dtype.newbyteorder("<")).tobytes()


def encode_rows(table: NDArray[Any], separator: str = " ", prefix: str = "") -> bytes:
    """One line of text for each row, with the shortest digits that read back as the same number."""
    # str of a NumPy scalar: float32 takes fewer digits than the float64 of the same value.
    return "".join(prefix + separator.join(map(str, row)) + "\n" for row in table).encode()
