"""STL, binary and ASCII: triangles that share no vertices, all solids of a file as one shape."""

from __future__ import annotations

import re

import numpy as np

from qecnet.formats._numbers import numbers, without_comments
from qecnet.formats._parts import Malformed, Parts

_HEAD = 84  # 80 bytes of anything and the number of triangles
_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
_VERTEX = re.compile(rb"^[ \t]*vertex[ \t]+([^\r\n]*)", re.MULTILINE | re.IGNORECASE)


def is_binary(data: bytes) -> bool:
    """Whether the file is just as long as a binary STL with its number of triangles; many begin with `solid` too."""
    return len(data) >= _HEAD and len(data) == _HEAD + _TRIANGLE.itemsize * _count(data)


def is_text(data: bytes) -> bool:
    # Text has no zero bytes; the number of triangles has them, even below a header that begins with `solid`.
    begins = data.lstrip()[:5].lower() == b"solid" and b"\0" not in data[:_HEAD]
    return begins and not is_binary(data)


def parse(data: bytes) -> Parts:
    if is_text(data):
        return _soup(_ascii_corners(data))
    if len(data) < _HEAD:
        raise Malformed(f"has {len(data)} bytes; a binary STL has at least {_HEAD}")
    count = _count(data)
    if _HEAD + _TRIANGLE.itemsize * count > len(data):
        raise Malformed(f"promises {count:,} triangles and has {len(data):,} bytes; the file was cut short")
    return _soup(np.frombuffer(data, _TRIANGLE, count, _HEAD)["corners"].astype(np.float64))


def _count(data: bytes) -> int:
    return int.from_bytes(data[80:_HEAD], "little")


def _ascii_corners(data: bytes) -> np.ndarray:
    vertices = _VERTEX.findall(without_comments(data))
    values = numbers(b"\n".join(vertices))
    if len(values) != 3 * len(vertices) or len(vertices) % 3 or b"endsolid" not in data[-4096:].lower():
        raise Malformed("ends in the middle of a triangle or before its `endsolid`; the file was cut short")
    return values


def _soup(corners: np.ndarray) -> Parts:
    if corners.size == 0:
        raise Malformed("has no triangles; an STL needs at least one")
    return Parts(corners.reshape(-1, 3), np.arange(corners.size // 3).reshape(-1, 3))
