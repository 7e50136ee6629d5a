"""PCD, the Point Cloud Library's format: ASCII, binary and compressed."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import lzf
import numpy as np
from numpy.typing import NDArray

from qecnet.formats._numbers import numbers
from qecnet.formats._parts import Malformed, Parts, stack

_HEADER = re.compile(rb"(.*?)^DATA[ \t]+(\w+)[ \t]*\r?\n", re.DOTALL | re.MULTILINE)
_TYPES = {t: f"<{t.lower()}" for t in ("F4", "F8", "I1", "I2", "I4", "I8", "U1", "U2", "U4", "U8")}
_LZF_RATIO = 88  # three bytes of LZF become 264 at the most


class _Field(NamedTuple):
    name: str
    type: str
    items: int

    @property
    def size(self) -> int:
        return self.items * np.dtype(self.type).itemsize


def parse(data: bytes) -> Parts:
    match = _HEADER.match(data)
    if match is None:
        raise Malformed("begins as a PCD and has no `DATA` line; the file was cut short")
    words = [line.split() for line in re.split("\r\n|\n|\r", match[1].decode("latin-1"))]
    header = {key: values for key, *values in filter(None, words)}
    fields, number = _fields(header), _point_count(header)
    body, kind = data[match.end() :], match[2]
    if kind == b"ascii":
        # Text becomes float64 in memory, so that one reader does for all.
        body, fields = numbers(body).tobytes(), [field._replace(type="=f8") for field in fields]
    elif kind == b"binary_compressed":
        body = _decompress(body, number * sum(field.size for field in fields))
    elif kind != b"binary":
        raise Malformed(f"has DATA {match[2][:30]!r}; it may be ascii, binary or binary_compressed")
    row = sum(field.size for field in fields)
    if number * row > len(body) or (kind == b"ascii" and number * row != len(body)):
        raise Malformed(f"promises {number:,} points and holds another number; it was cut short or its header is wrong")
    columns: dict[str, NDArray[Any]] = {}
    offset = 0
    for field in fields:
        # Compressed files hold one field of all points after another, the others one point after another.
        start, step = (number * offset, field.size) if kind == b"binary_compressed" else (offset, row)
        if field.items == 1:
            columns[field.name] = np.ndarray(number, field.type, body, start, (step,))
        offset += field.size
    points = stack(columns, ("x", "y", "z"))
    if points is None:
        raise Malformed("has no fields x, y and z; a cloud needs them")
    return Parts(points, normals=stack(columns, ("normal_x", "normal_y", "normal_z")))


def _fields(header: dict[str, list[str]]) -> list[_Field]:
    names = header.get("FIELDS", [])
    kinds, sizes, counts = (header.get(key, []) for key in ("TYPE", "SIZE", "COUNT"))
    counts = counts or ["1"] * len(names)
    if not len(names) == len(kinds) == len(sizes) == len(counts) > 0:
        raise Malformed("has FIELDS, SIZE, TYPE and COUNT of different lengths; write it anew")
    fields = []
    for name, kind, size, count in zip(names, kinds, sizes, counts, strict=True):
        if kind + size not in _TYPES or not re.fullmatch("[1-9][0-9]{0,8}", count):
            raise Malformed(
                f"has the field {name[:20]!r} of TYPE {kind[:9]} SIZE {size[:9]} COUNT {count[:20]}, which no PCD has"
            )
        fields.append(_Field(name, _TYPES[kind + size], int(count)))
    return fields


def _point_count(header: dict[str, list[str]]) -> int:
    """POINTS, which has to be WIDTH times HEIGHT where the header gives these."""
    numbers = {}
    for key in ("POINTS", "WIDTH", "HEIGHT"):
        value = " ".join(header.get(key, ["1" if key == "HEIGHT" else ""]))
        if re.fullmatch("[0-9]{1,18}", value):
            numbers[key] = int(value)
    area = numbers["WIDTH"] * numbers["HEIGHT"] if numbers.keys() >= {"WIDTH", "HEIGHT"} else None
    number = numbers.get("POINTS", area)
    if number is None or (area is not None and area != number):
        raise Malformed("has POINTS, WIDTH and HEIGHT that are missing or do not agree; its header is wrong")
    if number == 0:
        raise Malformed("has no points; a cloud needs at least one")
    return number


def _decompress(body: bytes, size: int) -> bytes:
    packed, unpacked = (int.from_bytes(body[at : at + 4], "little") for at in (0, 4))
    if len(body) < 8 + packed or unpacked != size or unpacked > _LZF_RATIO * packed:
        raise Malformed("has compressed data of another length than its header says; the file was cut short")
    try:
        raw: bytes | None = lzf.decompress(body[8 : 8 + packed], unpacked)
    except ValueError:
        raw = None
    if raw is None or len(raw) != unpacked:
        raise Malformed("has compressed data that cannot be unpacked; the file is damaged")
    return raw
