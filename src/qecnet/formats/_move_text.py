"""Points and normals in text files, moved where they stand: every other byte stays as it was.

What comes here has been read before, so headers are known to be right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from qecnet.formats import _off, _pcd, _ply, _text
from qecnet.formats._numbers import is_number, numbers
from qecnet.formats._parts import from_columns
from qecnet.formats.rigid import Rigid

Words = NDArray[np.int64]
"""(W, 2), where words begin and end in a text; or (N, 3, 2), those of N rows of three numbers."""

_THREE = rb"[ \t]+(\S+)[ \t]+(\S+)[ \t]+(\S+)"
_OBJ = re.compile(rb"^[ \t]*v" + _THREE, re.MULTILINE), re.compile(rb"^[ \t]*vn" + _THREE, re.MULTILINE)
_STL = (
    re.compile(rb"^[ \t]*vertex" + _THREE, re.MULTILINE | re.IGNORECASE),
    re.compile(rb"^[ \t]*facet[ \t]+normal" + _THREE, re.MULTILINE | re.IGNORECASE),
)


def obj(data: bytes, motion: Rigid) -> bytes:
    data = re.sub(rb"\\\r?\n", b" ", data)
    return _by_patterns(data, _OBJ, motion)


def stl(data: bytes, motion: Rigid) -> bytes:
    return _by_patterns(data, _STL, motion)


def off(data: bytes, motion: Rigid) -> bytes:
    text = _without_comments(data)
    header = _off._HEADER.match(text)
    assert header is not None
    count, face_count = int(header[2]), int(header[3])
    words = _words(text, header.end())
    # As it is read: where the numbers are just those of points and triangles, lines do not matter.
    plain = not header[1] and len(words) == 3 * count + 4 * face_count
    if plain and face_count:
        plain = bool((numbers(text[words[3 * count, 0] :]).reshape(-1, 4)[:, 0] == 3).all())
    first_line = text[header.end() :].lstrip().split(b"\n", 1)[0]
    stride = 3 if plain else len(first_line.split())
    table = words[: count * stride].reshape(count, stride, 2)
    return _moved(data, table[:, :3], table[:, 3:6] if header[1] else None, motion)


def ply(data: bytes, motion: Rigid) -> bytes:
    header = _ply._HEADER.match(data)
    assert header is not None
    elements = _ply._elements(header[2].decode("latin-1"))[1]
    elements = [e._replace(properties=[_ply._as_double(p) for p in e.properties]) for e in elements]
    element, start = vertex_element(numbers(data[header.end() :]).data.cast("B"), elements)
    names = [p.name for p in element.properties]
    words = _words(data, header.end())[start // 8 :][: element.rows * len(names)]
    return _by_names(data, words, names, (("x", "y", "z"), ("nx", "ny", "nz")), motion)


def pcd(data: bytes, motion: Rigid) -> bytes:
    header = _pcd._HEADER.match(data)
    assert header is not None
    fields, _ = pcd_header(header[1])
    names = [name for field in fields for name in (field.name, *[""] * (field.items - 1))]
    return _by_names(data, _words(data, header.end()), names, PCD_NAMES, motion)


def table(data: bytes, motion: Rigid) -> bytes:
    """XYZ, TXT and CSV."""
    text = _without_comments(data).translate(_text._SEPARATORS)
    start = len(text) - len(text.lstrip())
    first = text[start:].split(b"\n", 1)[0]
    heading = first.split()
    names: list[str] = []
    if len(heading) == 1 or not any(map(is_number, heading)):
        names = [word.strip(b"\"'/").decode("latin-1").lower() for word in heading]
        start += len(first)
    words = _words(text, start)
    if {"x", "y", "z"} <= set(names):
        return _by_names(data, words, names, (("x", "y", "z"), *_text._NORMALS), motion)
    columns = len(text[start:].lstrip().split(b"\n", 1)[0].split())
    rows = words.reshape(-1, columns, 2)
    has_normals = from_columns(_values(text, rows)).normals is not None
    return _moved(data, rows[:, :3], rows[:, 3:6] if has_normals else None, motion)


PCD_NAMES = ("x", "y", "z"), ("normal_x", "normal_y", "normal_z")


def pcd_header(header: bytes) -> tuple[list[_pcd._Field], int]:
    """The fields of a PCD, and how many points it has."""
    lines = (line.split() for line in re.split("\r\n|\n|\r", header.decode("latin-1")))
    entries = {key: values for key, *values in filter(None, lines)}
    return _pcd._fields(entries), _pcd._point_count(entries)


def vertex_element(body: memoryview, elements: Iterable[_ply._Element]) -> tuple[_ply._Element, int]:
    """The vertices of a PLY, and how many bytes of its body stand before them."""
    start = 0
    for element in elements:
        if element.name == "vertex":
            return element, start
        start += _ply._size(body[start:], element)
    raise AssertionError("a PLY that has been read has vertices")


def _without_comments(data: bytes) -> bytes:
    """As `_numbers.without_comments`, but each byte stays in its place."""
    text = re.sub(rb"#[^\r\n]*", lambda comment: b" " * len(comment[0]), data)
    return text.replace(b"\r", b"\n") if b"\n" not in text else text


def _words(text: bytes, start: int) -> Words:
    """Every word behind `start`. → (W, 2)"""
    blank = np.frombuffer(b" " + text[start:] + b" ", np.uint8) <= ord(" ")
    edges = np.flatnonzero(blank[1:] != blank[:-1]) + start
    return edges.reshape(-1, 2)


def _by_patterns(data: bytes, patterns: Sequence[re.Pattern[bytes]], motion: Rigid) -> bytes:
    """Lines that begin with a word for points, and lines that begin with another for normals."""
    text = _without_comments(data)
    points, normals = (
        np.array([line.span(i) for line in pattern.finditer(text) for i in (1, 2, 3)], np.int64).reshape(-1, 3, 2)
        for pattern in patterns
    )
    return _moved(data, points, normals, motion)


def _by_names(data: bytes, words: Words, names: list[str], groups: Sequence[tuple[str, ...]], motion: Rigid) -> bytes:
    """Rows of words by the names of their columns: first the points', then those that normals may have."""
    rows = words.reshape(-1, len(names), 2)
    points, *normals = (rows[:, [names.index(n) for n in group]] for group in groups if {*group} <= {*names})
    return _moved(data, points, normals[0] if normals else None, motion)


def _moved(data: bytes, points: Words, normals: Words | None, motion: Rigid) -> bytes:
    places, moved = [points], [motion.points(_values(data, points))]
    if normals is not None:
        places.append(normals)
        moved.append(motion.directions(_values(data, normals)))
    words, values = np.concatenate(places).reshape(-1, 2), np.concatenate(moved).reshape(-1) + 0.0
    order = words[:, 0].argsort()
    pieces, at = [], 0
    for (start, end), value in zip(words[order].tolist(), values[order].tolist(), strict=True):
        pieces += [data[at:start], repr(value).encode()]
        at = end
    return b"".join([*pieces, data[at:]])


def _values(data: bytes, words: Words) -> NDArray[np.float64]:
    """(..., 2) → (...)"""
    found = [float(data[start:end]) for start, end in words.reshape(-1, 2).tolist()]
    return np.array(found).reshape(words.shape[:-1])
