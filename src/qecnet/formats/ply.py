"""PLY, ASCII and binary in either byte order: a mesh if it has faces, a cloud if it has none."""

import re
import struct
from array import array
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qecnet.formats._format import Format, cloud_table, encode_little_endian, has_start
from qecnet.formats._numbers import parse_numbers
from qecnet.formats._parts import Malformed, Parts, stack_columns, to_integers, triangulate
from qecnet.formats._rewriting import find_words, move_named_words
from qecnet.formats.motion import XYZ, Motion, check_float, move_columns, needs_double
from qecnet.geometry import Mesh, PointCloud

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
_NORMALS = ("nx", "ny", "nz")

_Lists = dict[str, tuple[NDArray[Any], NDArray[np.int64]]]


class _Property(NamedTuple):
    name: str
    type: str
    counted_by: str | None  # the type of a list's length; None for a single number


class _Element(NamedTuple):
    name: str
    rows: int
    properties: list[_Property]


class _Contents(NamedTuple):
    is_text: bool
    elements: list[_Element]  # as the header declares them
    stored: list[_Element]  # as they are in `body`
    start: int  # of the body in the file
    body: memoryview  # of a text file, its numbers as float64, so that one reader is enough


def _parse(data: bytes) -> Parts:
    contents = _open(data)
    body = contents.body
    points = normals = triangles = None
    for element in contents.stored:
        if element.name == "vertex" and points is None:
            columns = _scalars(body, element)
            points, normals = stack_columns(columns, XYZ), stack_columns(columns, _NORMALS)
            if points is None:
                raise Malformed("has vertices without scalar properties x, y and z; save it with them")
        elif element.name == "face" and element.rows and triangles is None:
            lists = _lists(body, element)
            corners, sizes = lists.get("vertex_indices") or lists.get("vertex_index") or (None, None)
            if corners is None or sizes is None:
                raise Malformed("has faces without a list `vertex_indices`; save it with one")
            triangles = triangulate(to_integers(corners.astype(np.float64)), sizes)
        elif element.name == "tristrips":
            raise Malformed("has its surface in triangle strips, which are not supported; save it with plain faces")
        if points is not None and triangles is not None:
            break
        body = body[_size(body, element) :]
    if points is None:
        raise Malformed("has no vertices; a PLY needs an `element vertex`")
    return Parts(points, triangles, normals)


def _open(data: bytes | bytearray) -> _Contents:
    match = _HEADER.match(data)
    if match is None:
        raise Malformed("has no complete PLY header, from `ply` to `end_header`; it is damaged or truncated")
    is_text, elements = _parse_header(match[2].decode("latin-1"))
    if not is_text:
        return _Contents(False, elements, elements, match.end(), memoryview(data)[match.end() :])
    stored = [e._replace(properties=[_as_double(p) for p in e.properties]) for e in elements]
    return _Contents(True, elements, stored, match.end(), parse_numbers(bytes(data[match.end() :])).data.cast("B"))


def _parse_header(header: str) -> tuple[bool, list[_Element]]:
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
                raise Malformed(f"has the header line {line[:60]!r}, which is not part of PLY; save it again")
    return order == "=", elements


def _as_double(p: _Property) -> _Property:
    return _Property(p.name, "=f8", p.counted_by and "=f8")


def _has_lists(element: _Element) -> bool:
    return any(p.counted_by for p in element.properties)


def _truncated(element: _Element) -> Malformed:
    return Malformed(
        f"declares {element.rows:,} rows of {element.name!r} but ends before the last one; "
        "the file is truncated or its header is wrong"
    )


def _size(body: memoryview, element: _Element) -> int:
    if _has_lists(element):
        return _walk(body, element)[1]
    return element.rows * sum(np.dtype(p.type).itemsize for p in element.properties)


def _scalars(body: memoryview, element: _Element) -> dict[str, NDArray[Any]]:
    """Each property of an element that holds single numbers only, (count,)."""
    if _has_lists(element):
        raise Malformed(f"has a list among the properties of {element.name!r}; save it without lists there")
    if element.rows == 0 or not element.properties:
        raise Malformed(f"has no values in {element.name!r}; a shape needs at least one point")
    if _size(body, element) > len(body):
        raise _truncated(element)
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
    smallest = sum(np.dtype(p.counted_by or p.type).itemsize for p in element.properties)
    if element.rows * smallest > len(body):  # even if every list is empty
        raise _truncated(element)
    items = {p.name: bytearray() for p in element.properties if p.counted_by}
    lengths = {name: array("q") for name in items}
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
                    raise _truncated(element)
                (length,) = counter.unpack_from(body, at)
                at += counter.size
                if not 0 <= length * size <= len(body) - at or length != int(length):
                    raise _truncated(element)
                length = int(length)
                lengths[name].append(length)
                items[name] += body[at : at + length * size]
            at += length * size
    if at > len(body):
        raise _truncated(element)
    kinds = {p.name: p.type for p in element.properties}
    return {n: (np.frombuffer(items[n], kinds[n]), np.frombuffer(lengths[n], np.int64)) for n in items}, at


def _move(data: bytes, motion: Motion) -> bytes:
    moved = bytearray(data)
    contents = _open(moved)
    place = next(i for i, element in enumerate(contents.elements) if element.name == "vertex")
    start = 0
    for element in contents.stored[:place]:
        start += _size(contents.body[start:], element)
    declared = contents.elements[place]
    points = stack_columns(_scalars(contents.body[start:], contents.stored[place]), XYZ)
    assert points is not None  # `parse` has accepted the file
    types = [np.dtype(p.type) for p in declared.properties if p.name in XYZ]
    if all(dtype.kind == "f" for dtype in types) and needs_double(points, motion, types):
        return _move(_with_double(data, contents, place, start), motion)
    if not contents.is_text:
        move_columns(_scalars(contents.body[start:], declared), _NORMALS, motion)
        return bytes(moved)
    check_float([np.dtype(p.type).kind == "f" for p in declared.properties if p.name in XYZ + _NORMALS])
    names = [p.name for p in declared.properties]
    first = start // 8
    words = find_words(data, contents.start)[first : first + declared.rows * len(names)]
    return move_named_words(data, words, names, _NORMALS, motion)


def _with_double(data: bytes, contents: _Contents, place: int, start: int) -> bytes:
    """The file with x, y and z as doubles; the vertices are the element at `place` and begin at `start` in the body."""
    element = contents.elements[place]
    head, body = data[: contents.start], data[contents.start :]
    first, *blocks = re.split(rb"(?m)(?=^[ \t]*element[ \t])", head.replace(b"\r", b"\n"))
    at = len(first) + sum(map(len, blocks[:place]))
    block = head[at : at + len(blocks[place])]
    block = re.sub(rb"(?<=[\r\n])([ \t]*property[ \t]+)float(32)?(?=[ \t]+[xyz][ \t]*[\r\n])", _name_double, block)
    head = head[:at] + block + head[at + len(blocks[place]) :]
    if contents.is_text:
        return head + body
    fields = [(str(i), p.type) for i, p in enumerate(element.properties)]
    wide = [(str(i), p.type[0] + "f8" if p.name in XYZ else p.type) for i, p in enumerate(element.properties)]
    table = np.frombuffer(body, np.dtype(fields), element.rows, start)
    return head + body[:start] + table.astype(np.dtype(wide)).tobytes() + body[start + table.nbytes :]


def _name_double(kind: re.Match[bytes]) -> bytes:
    return kind[1] + (b"float64" if kind[2] else b"double")


def _encode_cloud(cloud: PointCloud) -> bytes:
    table = cloud_table(cloud)
    return _encode_header(table, XYZ + _NORMALS) + b"end_header\n" + encode_little_endian(table)


def _encode_mesh(mesh: Mesh) -> bytes:
    vertices = mesh.vertices.numpy(force=True)
    faces = np.empty(len(mesh.faces), [("corners", "u1"), ("at", "<i4", 3)])
    faces["corners"], faces["at"] = 3, mesh.faces.numpy(force=True)
    lists = f"element face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    return _encode_header(vertices, XYZ) + lists.encode() + encode_little_endian(vertices) + faces.tobytes()


def _encode_header(table: NDArray[Any], names: tuple[str, ...]) -> bytes:
    kind = {4: "float", 8: "double"}[table.itemsize]
    lines = [f"property {kind} {name}" for name in names[: table.shape[1]]]
    return "\n".join(["ply", "format binary_little_endian 1.0", f"element vertex {len(table)}", *lines, ""]).encode()


FORMAT = Format((".ply",), has_start(rb"ply\s"), _parse, _move, _encode_mesh, _encode_cloud)
