"""OFF, ModelNet's format: plain, COFF, NOFF and STOFF, with or without a space between the header and the counts."""

import re
from typing import NamedTuple

import numpy as np

from qecnet.formats._format import Format, encode_rows, has_start
from qecnet.formats._numbers import blank_comments, parse_numbers, parse_rows
from qecnet.formats._parts import Malformed, Parts, to_integers, triangulate
from qecnet.formats._rewriting import find_words, move_words
from qecnet.formats.motion import Motion
from qecnet.geometry import Mesh

_HEADER = re.compile(rb"\s*(?:ST)?C?(N?)OFF\s*(\d{1,18})\s+(\d{1,18})(?:[ \t]+-?\d+)?(?=\s|\Z)", re.IGNORECASE)


class _Header(NamedTuple):
    vertices: int
    faces: int
    has_normals: bool
    end: int


def _parse(data: bytes) -> Parts:
    text = blank_comments(data)
    header = _parse_header(text)
    body = text[header.end :]
    if not header.has_normals:
        parts = _parse_triangles(parse_numbers(body), header)
        if parts is not None:
            return parts
    return _parse_lines(body, header)


def _parse_header(text: bytes) -> _Header:
    match = _HEADER.match(text)
    if match is None:
        raise Malformed("does not begin with OFF and the numbers of vertices and faces; save it as a text OFF")
    return _Header(int(match[2]), int(match[3]), bool(match[1]), match.end())


def _parse_triangles(values: np.ndarray, header: _Header) -> Parts | None:
    """The shape if the numbers are exactly those of points and triangles, wherever lines end; None otherwise."""
    end = 3 * header.vertices
    if len(values) != end + 4 * header.faces:
        return None
    faces = values[end:].reshape(-1, 4)
    if (faces[:, 0] != 3).any():
        return None
    return Parts(values[:end].reshape(-1, 3), to_integers(faces)[:, 1:] if header.faces else None)


def _parse_lines(body: bytes, header: _Header) -> Parts:
    """Vertices with more than three columns, polygons, and faces with a colour behind their corners."""
    values, lengths = parse_rows(body)
    count = header.vertices
    if len(lengths) != count + header.faces or count == 0:
        raise Malformed(
            f"declares {count:,} vertices and {header.faces:,} faces in its header but has {len(lengths):,} lines "
            "of them; the file is truncated or its header is wrong"
        )
    columns = lengths[0]
    if columns < (6 if header.has_normals else 3) or (lengths[:count] != columns).any():
        raise Malformed("has vertices with too few numbers, or not as many as the first; the file is damaged")
    vertices = values[: count * columns].reshape(count, columns)
    if header.faces == 0:
        return Parts(vertices[:, :3], normals=vertices[:, 3:6] if header.has_normals else None)
    values, lengths = values[count * columns :], lengths[count:]
    starts = np.cumsum(lengths) - lengths
    sizes = to_integers(values[starts])
    if (sizes < 0).any() or (sizes >= lengths).any():
        raise Malformed("has a face with fewer corners than it declares; the file is damaged")
    place = np.arange(len(values)) - np.repeat(starts, lengths)
    corners = values[(place > 0) & (place <= np.repeat(sizes, lengths))]
    return Parts(vertices[:, :3], triangulate(to_integers(corners), sizes))


def _move(data: bytes, motion: Motion) -> bytes:
    text = blank_comments(data)
    header = _parse_header(text)
    words = find_words(text, header.end)
    columns = 3
    if header.has_normals or _parse_triangles(parse_numbers(text[header.end :]), header) is None:
        columns = len(text[header.end :].lstrip().split(b"\n", 1)[0].split())
    table = words[: header.vertices * columns].reshape(header.vertices, columns, 2)
    return move_words(data, table[:, :3], table[:, 3:6] if header.has_normals else None, motion)


def _encode_mesh(mesh: Mesh) -> bytes:
    vertices, faces = mesh.vertices.numpy(force=True), mesh.faces.numpy(force=True)
    header = f"OFF\n{len(vertices)} {len(faces)} 0\n".encode()
    return header + encode_rows(vertices) + encode_rows(faces, prefix="3 ")


FORMAT = Format((".off",), has_start(rb"(?i)(ST)?C?N?OFF[\s\d]"), _parse, _move, encode_mesh=_encode_mesh)
