"""OBJ: vertices and faces of every object and group in the file, as one shape."""

from __future__ import annotations

import re

import numpy as np

from qecnet.formats._numbers import numbers, rows, without_comments
from qecnet.formats._parts import Malformed, Parts, fan, whole

_VERTEX = re.compile(rb"^[ \t]*v[ \t]+(\S+[ \t]+\S+[ \t]+\S+)?", re.MULTILINE)
_NORMAL = re.compile(rb"^[ \t]*vn[ \t]+(\S+[ \t]+\S+[ \t]+\S+)", re.MULTILINE)
_FACE = re.compile(rb"^[ \t]*f[ \t]+([^\r\n]*)", re.MULTILINE)
_TEXTURE_AND_NORMAL = re.compile(rb"/\S*")


def parse(data: bytes) -> Parts:
    data = without_comments(data)
    if b"\\" in data:
        data = re.sub(rb"\\\r?\n", b" ", data)
    vertices = _VERTEX.findall(data)
    if not vertices or b"" in vertices:
        raise Malformed("has no vertices, or one with fewer than three numbers; a line `v x y z` gives each")
    points = numbers(b"\n".join(vertices)).reshape(-1, 3)
    polygons = _FACE.findall(data)
    if not polygons:
        normals = _NORMAL.findall(data)
        return Parts(
            points, normals=numbers(b"\n".join(normals)).reshape(-1, 3) if len(normals) == len(points) else None
        )
    values, sizes = rows(_TEXTURE_AND_NORMAL.sub(b"", b"\n".join(polygons)))
    corners = whole(values)
    if (corners == 0).any() or len(sizes) != len(polygons):
        raise Malformed("has a face without corners, or one at vertex 0; OBJ counts vertices from 1")
    if (corners < 0).any():
        # A negative index counts back from the vertices that stand above its face.
        lines = [m.start() for m in _VERTEX.finditer(data)], [m.start() for m in _FACE.finditer(data)]
        above = np.repeat(np.searchsorted(*lines), sizes)
        corners = np.where(corners < 0, above + corners + 1, corners)
    return Parts(points, fan(corners - 1, sizes))
