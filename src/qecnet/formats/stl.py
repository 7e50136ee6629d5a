"""STL, binary and ASCII: triangles that share no vertices, all solids of a file as one shape."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qecnet.formats._format import Format
from qecnet.formats._numbers import blank_comments, parse_numbers
from qecnet.formats._parts import Malformed, Parts
from qecnet.formats._rewriting import find_triples, move_words
from qecnet.formats.motion import Float64Array, Motion, check_single, needs_double, too_coarse
from qecnet.geometry import Mesh

_HEADER = 84  # 80 arbitrary bytes and the number of triangles
_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
_MAGIC = re.compile(rb"solid\s", re.IGNORECASE)
_VERTEX = re.compile(rb"^[ \t]*vertex[ \t]+([^\r\n]*)", re.MULTILINE | re.IGNORECASE)


def _matches(data: bytes, text: bytes) -> bool:
    return _is_binary(data) or _MAGIC.match(text) is not None


def _is_binary(data: bytes) -> bool:
    """Whether the file is exactly as long as a binary STL with its number of triangles; some begin with `solid` too."""
    return len(data) >= _HEADER and len(data) == _HEADER + _TRIANGLE.itemsize * _count(data)


def _is_text(data: bytes) -> bool:
    # Text has no zero bytes; the number of triangles has them, even below a header that begins with `solid`.
    begins = data.lstrip()[:5].lower() == b"solid" and b"\0" not in data[:_HEADER]
    return begins and not _is_binary(data)


def _count(data: bytes | bytearray) -> int:
    return int.from_bytes(data[80:_HEADER], "little")


def _parse(data: bytes) -> Parts:
    corners = _parse_text(data) if _is_text(data) else _triangles(data)["corners"].astype(np.float64)
    if corners.size == 0:
        raise Malformed("has no triangles; an STL needs at least one")
    return Parts(corners.reshape(-1, 3), np.arange(corners.size // 3).reshape(-1, 3))


def _parse_text(data: bytes) -> NDArray[np.float64]:
    vertices = _VERTEX.findall(blank_comments(data))
    values = parse_numbers(b"\n".join(vertices))
    if len(values) != 3 * len(vertices) or len(vertices) % 3 or b"endsolid" not in data[-4096:].lower():
        raise Malformed("ends in the middle of a triangle or before its `endsolid`; the file is truncated")
    return values


def _triangles(data: bytes | bytearray) -> NDArray[Any]:
    """The table of a binary STL, a view of its bytes."""
    if len(data) < _HEADER:
        raise Malformed(f"has {len(data)} bytes; a binary STL has at least {_HEADER}")
    count = _count(data)
    if _HEADER + _TRIANGLE.itemsize * count > len(data):
        raise Malformed(f"declares {count:,} triangles but has {len(data):,} bytes; the file is truncated")
    return np.frombuffer(data, _TRIANGLE, count, _HEADER)


def _move(data: bytes, motion: Motion) -> bytes:
    if _is_text(data):
        text = blank_comments(data)
        corners, normals = (find_triples(text, word) for word in (b"(?i:vertex)", rb"(?i:facet[ \t]+normal)"))
        return move_words(data, corners, normals, motion)
    moved = bytearray(data)
    triangles = _triangles(moved)
    points: Float64Array = triangles["corners"].astype(np.float64).reshape(-1, 3)
    if needs_double(points, motion, [np.dtype(np.float32)]):
        raise too_coarse("binary STL")
    triangles["corners"] = motion.points(points).reshape(-1, 3, 3)
    triangles["normal"] = motion.directions(triangles["normal"].astype(np.float64))
    return bytes(moved)


def _encode_mesh(mesh: Mesh) -> bytes:
    corners = mesh.vertices[mesh.faces].double().numpy(force=True)
    check_single(corners.reshape(-1, 3), "STL")
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    triangles = np.zeros(len(corners), _TRIANGLE)
    triangles["corners"] = corners
    triangles["normal"] = np.divide(normals, lengths, out=np.zeros_like(normals), where=lengths > 0)
    return b"qecnet".ljust(80) + len(corners).to_bytes(4, "little") + triangles.tobytes()


FORMAT = Format((".stl",), _matches, _parse, _move, encode_mesh=_encode_mesh)
