"""PLY, ASCII and binary in either byte order: a mesh where it has faces, a cloud where it has none."""

from __future__ import annotations

import re
import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qecnet.formats._numbers import numbers
from qecnet.formats._parts import Malformed, Parts, fan, stack, whole

_TYPES = {
    "char": "i1",
    "uchar": "u1",
    "short": "i2",
    "ushort": "u2",
    "int": "i4",
    "uint": "u4",
    "float": "f4",
    "double": "f8",
}
_TYPES |= {np.dtype(kind).name: kind for kind in _TYPES.values()}  # int8, uint8, …, float64: PLY's later names
_ORDERS = {"binary_little_endian": "<", "binary_big_endian": ">", "ascii": "="}
_HEADER = re.compile(rb"ply[ \t]*(\r\n|\n|\r)(.*?)(?<=[\r\n])end_header[ \t]*\1", re.DOTALL)


_Lists = dict[str, tuple[NDArray[Any], NDArray[np.int64]]]


class _Property(NamedTuple):
    name: str
    type: str
    counted_by: str | None  # the type of a list's length; None for a single number


class _Element(NamedTuple):
    name: str
    rows: int
    properties: list[_Property]


def parse(data: bytes) -> Parts:
    match = _HEADER.match(data)
    if match is None:
        raise Malformed("begins as a PLY and has no `end_header` line; the file was cut short")
    is_text, elements = _elements(match[2].decode("latin-1"))
    body = memoryview(data)[match.end() :]
    if is_text:
        # Text becomes float64 in memory, so that one reader does for both.
        body = numbers(bytes(body)).data.cast("B")
        elements = [e._replace(properties=[_as_double(p) for p in e.properties]) for e in elements]
    points = normals = triangles = None
    for element in elements:
        if element.name == "vertex" and points is None:
            columns = _scalars(body, element)
            points, normals = stack(columns, ("x", "y", "z")), stack(columns, ("nx", "ny", "nz"))
            if points is None:
                raise Malformed("has vertices without single numbers x, y and z; write it anew with these")
        elif element.name == "face" and element.rows and triangles is None:
            lists = _lists(body, element)
            corners, sizes = lists.get("vertex_indices") or lists.get("vertex_index") or (None, None)
            if corners is None or sizes is None:
                raise Malformed("has faces without a list `vertex_indices`; write it anew with these")
            triangles = fan(whole(corners.astype(np.float64)), sizes)
        elif element.name == "tristrips":
            raise Malformed("has its surface in triangle strips, which are not read; write it anew with plain faces")
        if points is not None and triangles is not None:
            break
        body = body[_size(body, element) :]
    if points is None:
        raise Malformed("has no vertices; a PLY needs an `element vertex`")
    return Parts(points, triangles, normals)


def _elements(header: str) -> tuple[bool, list[_Element]]:
    order = ""
    elements: list[_Element] = []
    for line in re.split("\r\n|\n|\r", header):
        match line.split():
            case [] | ["comment" | "obj_info", *_]:
                pass
            case ["format", name, _] if name in _ORDERS:
                order = _ORDERS[name]
            case ["element", name, count] if order and re.fullmatch("[0-9]{1,18}", count):
                elements.append(_Element(name, int(count), []))
            case ["property", "list", length, item, name] if elements and length in _TYPES and item in _TYPES:
                elements[-1].properties.append(_Property(name, order + _TYPES[item], order + _TYPES[length]))
            case ["property", kind, name] if elements and kind in _TYPES:
                elements[-1].properties.append(_Property(name, order + _TYPES[kind], None))
            case _:
                raise Malformed(f"has the header line {line[:60]!r}, which no PLY has; write it anew")
    return order == "=", elements


def _as_double(p: _Property) -> _Property:
    return _Property(p.name, "=f8", p.counted_by and "=f8")


def _has_lists(element: _Element) -> bool:
    return any(p.counted_by for p in element.properties)


def _cut_short(element: _Element) -> Malformed:
    return Malformed(
        f"promises {element.rows:,} of {element.name!r} and ends before the last; "
        "the file was cut short or its header is wrong"
    )


def _size(body: memoryview, element: _Element) -> int:
    if _has_lists(element):
        return _walk(body, element)[1]
    return element.rows * sum(np.dtype(p.type).itemsize for p in element.properties)


def _scalars(body: memoryview, element: _Element) -> dict[str, NDArray[Any]]:
    """Each property of an element that holds single numbers only, (count,)."""
    if _has_lists(element):
        raise Malformed(f"has a list among the properties of {element.name!r}; write it anew without")
    if element.rows == 0 or not element.properties:
        raise Malformed(f"has nothing in {element.name!r}; a shape needs at least one point")
    if _size(body, element) > len(body):
        raise _cut_short(element)
    row = np.dtype([(str(i), p.type) for i, p in enumerate(element.properties)])
    table = np.frombuffer(body, row, element.rows)
    return {p.name: table[str(i)] for i, p in enumerate(element.properties)}


def _lists(body: memoryview, element: _Element) -> _Lists:
    """Each list of an element: the items of all rows in one array, and the length in each row."""
    lists, size = _walk(body, element._replace(rows=1))
    if size * element.rows > len(body):
        return _walk(body, element)[0]
    # Most files have triangles only: if every row is laid out as the first is, they are one table.
    fields: list[tuple[Any, ...]] = []
    for i, p in enumerate(element.properties):
        if p.counted_by:
            fields += [(f"length {i}", p.counted_by), (f"{i}", p.type, (int(lists[p.name][1][0]),))]
        else:
            fields.append((f"{i}", p.type))
    table = np.frombuffer(body, np.dtype(fields), element.rows)
    for i, p in enumerate(element.properties):
        if p.counted_by:
            length = table[f"length {i}"]
            if (length != length[0]).any():
                return _walk(body, element)[0]
            lists[p.name] = table[f"{i}"].reshape(-1), length.astype(np.int64)
    return lists


def _walk(body: memoryview, element: _Element) -> tuple[_Lists, int]:
    """The lists of an element, row by row, and its size in bytes."""
    items: dict[str, list[memoryview]] = {p.name: [] for p in element.properties if p.counted_by}
    lengths: dict[str, list[int]] = {name: [] for name in items}
    steps = [
        (p.name, np.dtype(p.type).itemsize, p.counted_by and struct.Struct(p.type[0] + np.dtype(p.counted_by).char))
        for p in element.properties
    ]
    at = 0
    for _ in range(element.rows):
        for name, size, counter in steps:
            length = 1
            if counter:
                if at + counter.size > len(body):
                    raise _cut_short(element)
                (length,) = counter.unpack_from(body, at)
                at += counter.size
                if not 0 <= length * size <= len(body) - at or length != int(length):
                    raise _cut_short(element)
                length = int(length)
                lengths[name].append(length)
                items[name].append(body[at : at + length * size])
            at += length * size
    if at > len(body):
        raise _cut_short(element)
    kinds = {p.name: p.type for p in element.properties}
    return {
        name: (np.frombuffer(b"".join(items[name]), kinds[name]), np.array(lengths[name], np.int64)) for name in items
    }, at
