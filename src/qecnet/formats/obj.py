"""OBJ: vertices and faces of every object and group in the file, as one shape."""

import re

import numpy as np

from qecnet.formats._format import Format, encode_rows, has_start
from qecnet.formats._numbers import blank_comments, parse_numbers, parse_rows
from qecnet.formats._parts import Malformed, Parts, to_integers, triangulate
from qecnet.formats._rewriting import find_triples, move_words
from qecnet.formats.motion import Motion
from qecnet.geometry import Mesh

_VERTEX = re.compile(rb"^[ \t]*v[ \t]+(\S+[ \t]+\S+[ \t]+\S+)?", re.MULTILINE)
_NORMAL = re.compile(rb"^[ \t]*vn[ \t]+(\S+[ \t]+\S+[ \t]+\S+)", re.MULTILINE)
_FACE = re.compile(rb"^[ \t]*f[ \t]+([^\r\n]*)", re.MULTILINE)
_TEXTURE_AND_NORMAL = re.compile(rb"/\S*")
_CONTINUATION = re.compile(rb"\\\r?\n")


def _parse(data: bytes) -> Parts:
    text = _join_lines(data)
    vertices = _VERTEX.findall(text)
    if not vertices or b"" in vertices:
        raise Malformed("has no vertices, or one with fewer than three numbers; a vertex is a line `v x y z`")
    points = parse_numbers(b"\n".join(vertices)).reshape(-1, 3)
    polygons = _FACE.findall(text)
    if not polygons:
        normals = _NORMAL.findall(text)
        has_normals = len(normals) == len(points)
        return Parts(points, normals=parse_numbers(b"\n".join(normals)).reshape(-1, 3) if has_normals else None)
    values, sizes = parse_rows(_TEXTURE_AND_NORMAL.sub(b"", b"\n".join(polygons)))
    corners = to_integers(values)
    if (corners == 0).any() or len(sizes) != len(polygons):
        raise Malformed("has a face without corners, or one that refers to vertex 0; OBJ counts vertices from 1")
    if (corners < 0).any():
        # A negative index counts back from the vertices above its face.
        lines = [m.start() for m in _VERTEX.finditer(text)], [m.start() for m in _FACE.finditer(text)]
        above = np.repeat(np.searchsorted(*lines), sizes)
        corners = np.where(corners < 0, above + corners + 1, corners)
    return Parts(points, triangulate(corners - 1, sizes))


def _join_lines(data: bytes) -> bytes:
    """The text without comments and with continued lines joined; every byte keeps its place."""
    text = blank_comments(data)
    return _CONTINUATION.sub(lambda end: b" " * len(end[0]), text) if b"\\" in text else text


def _move(data: bytes, motion: Motion) -> bytes:
    text = _join_lines(data)
    return move_words(data, find_triples(text, b"v"), find_triples(text, b"vn"), motion)


def _encode_mesh(mesh: Mesh) -> bytes:
    vertices, faces = mesh.vertices.numpy(force=True), mesh.faces.numpy(force=True)
    return encode_rows(vertices, prefix="v ") + encode_rows(faces + 1, prefix="f ")


_matches = has_start(rb"(v|vn|vt|f|o|g|s|mtllib|usemtl)[ \t]")
FORMAT = Format((".obj",), _matches, _parse, _move, encode_mesh=_encode_mesh)
