"""PCD, the Point Cloud Library's format: ASCII, binary and compressed."""

import re
from typing import Any, NamedTuple

import lzf
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from qecnet.formats._format import Format, cloud_table, encode_little_endian, has_start
from qecnet.formats._numbers import parse_numbers
from qecnet.formats._parts import Malformed, Parts, check_unpacked_size, stack_columns
from qecnet.formats._rewriting import find_words, move_named_words
from qecnet.formats.motion import XYZ, Motion, move_columns, needs_double
from qecnet.geometry import PointCloud

_HEADER = re.compile(rb"(.*?)^DATA[ \t]+(\w+)[ \t]*\r?\n", re.DOTALL | re.MULTILINE)
_TYPES = {t: f"<{t.lower()}" for t in ("F4", "F8", "I1", "I2", "I4", "I8", "U1", "U2", "U4", "U8")}
_VIEWPOINT = re.compile(rb"^[ \t]*VIEWPOINT\b[^\r\n]*", re.MULTILINE)
_AFTER_VIEWPOINT = re.compile(rb"^[ \t]*(POINTS|DATA)\b", re.MULTILINE)
_SIZE = re.compile(rb"^[ \t]*SIZE[ \t]+([^\r\n]*)", re.MULTILINE)
_LZF_RATIO = 88  # three bytes of LZF become 264 at the most
_NORMALS = ("normal_x", "normal_y", "normal_z")
_NO_VIEWPOINT = ["0", "0", "0", "1", "0", "0", "0"]


class _Field(NamedTuple):
    name: str
    type: str
    items: int

    @property
    def size(self) -> int:
        return self.items * np.dtype(self.type).itemsize


class _Header(NamedTuple):
    fields: list[_Field]
    points: int
    encoding: bytes
    end: int
    viewpoint: NDArray[np.float64] | None  # (7,), position and rotation WXYZ

    @property
    def row(self) -> int:
        return sum(field.size for field in self.fields)


def _parse(data: bytes) -> Parts:
    header = _parse_header(data)
    body = data[header.end :]
    if header.encoding == b"ascii":
        # Text is converted to float64 in memory, so that one reader is enough.
        header = header._replace(fields=[field._replace(type="=f8") for field in header.fields])
        body = parse_numbers(body).tobytes()
    elif header.encoding == b"binary_compressed":
        body = _decompress(body, header.points * header.row)
    columns = _columns(body, header)
    points = stack_columns(columns, XYZ)
    if points is None:
        raise Malformed("has no fields x, y and z; a cloud needs them")
    return Parts(
        points,
        normals=stack_columns(columns, _NORMALS),
        viewpoint=None if header.viewpoint is None else header.viewpoint[:3],
    )


def _parse_header(data: bytes) -> _Header:
    match = _HEADER.match(data)
    if match is None:
        raise Malformed("has no `DATA` line, which ends the header of a PCD; it is damaged or truncated")
    if match[2] not in (b"ascii", b"binary", b"binary_compressed"):
        raise Malformed(f"has DATA {match[2][:30]!r}; it must be ascii, binary or binary_compressed")
    words = [line.split() for line in re.split("\r\n|\n|\r", match[1].decode("latin-1"))]
    entries = {key: values for key, *values in filter(None, words)}
    viewpoint = _parse_viewpoint(entries)
    return _Header(_parse_fields(entries), _parse_count(entries), match[2], match.end(), viewpoint)


def _parse_fields(entries: dict[str, list[str]]) -> list[_Field]:
    names = entries.get("FIELDS", [])
    kinds, sizes, counts = (entries.get(key, []) for key in ("TYPE", "SIZE", "COUNT"))
    counts = counts or ["1"] * len(names)
    if not len(names) == len(kinds) == len(sizes) == len(counts) > 0:
        raise Malformed("has FIELDS, SIZE, TYPE and COUNT of different lengths; its header is wrong")
    fields = []
    for name, kind, size, count in zip(names, kinds, sizes, counts, strict=True):
        if kind + size not in _TYPES or not re.fullmatch("[1-9][0-9]{0,8}", count):
            raise Malformed(
                f"has the field {name[:20]!r} of TYPE {kind[:9]} SIZE {size[:9]} COUNT {count[:20]}, "
                "which PCD does not allow; its header is wrong"
            )
        fields.append(_Field(name, _TYPES[kind + size], int(count)))
    return fields


def _parse_count(entries: dict[str, list[str]]) -> int:
    """POINTS, which has to be WIDTH times HEIGHT if the header gives these."""
    counts = {}
    for key in ("POINTS", "WIDTH", "HEIGHT"):
        value = " ".join(entries.get(key, ["1" if key == "HEIGHT" else ""]))
        if re.fullmatch("[0-9]{1,18}", value):
            counts[key] = int(value)
    area = counts["WIDTH"] * counts["HEIGHT"] if counts.keys() >= {"WIDTH", "HEIGHT"} else None
    count = counts.get("POINTS", area)
    if count is None or (area is not None and area != count):
        raise Malformed("has POINTS, WIDTH and HEIGHT that are missing or do not agree; its header is wrong")
    if count == 0:
        raise Malformed("has no points; a cloud needs at least one")
    return count


def _parse_viewpoint(entries: dict[str, list[str]]) -> NDArray[np.float64] | None:
    """The camera's position and rotation, (7,); None if the header does not have it.

    VIEWPOINT is the camera's position and rotation. Programs that do not know it write 0 0 0 1 0 0 0, so this value is
    used only for an organised cloud, which has the rows and columns of an image.
    """
    words = entries.get("VIEWPOINT", _NO_VIEWPOINT)
    try:
        numbers = np.array([float(word) for word in words])
    except ValueError:
        return None
    if len(numbers) != len(_NO_VIEWPOINT) or not np.isfinite(numbers).all():
        return None
    is_organised = entries.get("HEIGHT", ["1"]) not in (["1"], ["0"])
    is_known = is_organised or (numbers != np.array(_NO_VIEWPOINT, np.float64)).any()
    return numbers if is_known else None


def _columns(body: bytes | bytearray, header: _Header) -> dict[str, NDArray[Any]]:
    """Each field with one number per point, (N,), a view of the body."""
    count, row = header.points, header.row
    if count * row > len(body) or (header.encoding == b"ascii" and count * row != len(body)):
        raise Malformed(
            f"declares {count:,} points but contains a different number; it is truncated or its header is wrong"
        )
    columns: dict[str, NDArray[Any]] = {}
    offset = 0
    for field in header.fields:
        # Compressed files hold one field of all points after another, the others one point after another.
        by_field = header.encoding == b"binary_compressed"
        start, step = (count * offset, field.size) if by_field else (offset, row)
        if field.items == 1:
            columns[field.name] = np.ndarray(count, field.type, body, start, (step,))
        offset += field.size
    return columns


def _decompress(body: bytes, size: int) -> bytes:
    packed, unpacked = (int.from_bytes(body[at : at + 4], "little") for at in (0, 4))
    if len(body) < 8 + packed or unpacked != size or unpacked > _LZF_RATIO * packed:
        raise Malformed("has compressed data whose length differs from that in its header; the file is truncated")
    check_unpacked_size(unpacked)
    try:
        raw: bytes | None = lzf.decompress(body[8 : 8 + packed], unpacked)
    except ValueError:
        raw = None
    if raw is None or len(raw) != unpacked:
        raise Malformed("has compressed data that cannot be unpacked; the file is damaged")
    return raw


def _compress(raw: bytes) -> bytes:
    packed: bytes = lzf.compress(raw, 2 * len(raw) + 64)  # enough room for data that does not become smaller
    return len(packed).to_bytes(4, "little") + len(raw).to_bytes(4, "little") + packed


def _move(data: bytes, motion: Motion) -> bytes:
    header = _parse_header(data)
    if header.viewpoint is not None:
        data = _move_viewpoint(data, header, header.viewpoint, motion)
        header = _parse_header(data)
    points = _parse(data).points
    types = [np.dtype(field.type) for field in header.fields if field.name in XYZ]
    if all(dtype.kind == "f" for dtype in types) and needs_double(points, motion, types):
        data = _with_double(data, header)
        header = _parse_header(data)
    before, body = data[: header.end], data[header.end :]
    if header.encoding == b"ascii":
        names = [name for field in header.fields for name in (field.name, *[""] * (field.items - 1))]
        return move_named_words(data, find_words(data, header.end), names, _NORMALS, motion)
    is_packed = header.encoding == b"binary_compressed"
    moved = bytearray(_decompress(body, header.points * header.row) if is_packed else body)
    move_columns(_columns(moved, header), _NORMALS, motion)
    return before + (_compress(bytes(moved)) if is_packed else moved)


def _with_double(data: bytes, header: _Header) -> bytes:
    """The file with x, y and z as doubles."""
    sizes = iter(header.fields)
    line = _SIZE.search(data, 0, header.end)
    assert line is not None
    words = re.sub(rb"\S+", lambda word: b"8" if next(sizes).name in XYZ else word[0], line[1])
    before = data[: line.start(1)] + words + data[line.end(1) : header.end]
    body = data[header.end :]
    if header.encoding == b"ascii":
        return before + body
    is_packed = header.encoding == b"binary_compressed"
    raw = _decompress(body, header.points * header.row) if is_packed else body
    wide = [field._replace(type="<f8") if field.name in XYZ else field for field in header.fields]
    if is_packed:
        starts = np.cumsum([0, *(header.points * field.size for field in header.fields[:-1])]).tolist()
        blocks = [
            np.frombuffer(raw, old.type, header.points * old.items, start).astype(new.type).tobytes()
            for old, new, start in zip(header.fields, wide, starts, strict=True)
        ]
        return before + _compress(b"".join(blocks))
    rows = (np.dtype([(str(i), f.type, (f.items,)) for i, f in enumerate(fields)]) for fields in (header.fields, wide))
    table = np.frombuffer(raw, next(rows), header.points)
    return before + table.astype(next(rows)).tobytes() + raw[table.nbytes :]


def _move_viewpoint(data: bytes, header: _Header, viewpoint: NDArray[np.float64], motion: Motion) -> bytes:
    """The file with the camera moved along in its header."""
    camera = motion.points(viewpoint[None, :3])[0]
    try:
        rotation = Rotation.from_matrix(motion.rotation) * Rotation.from_quat(np.roll(viewpoint[3:], -1))
        turn = np.roll(rotation.as_quat(), 1)
    except ValueError:  # a quaternion of zeros
        turn = viewpoint[3:]
    line = "VIEWPOINT " + " ".join(repr(float(value)) for value in (*camera, *turn))
    if found := [*_VIEWPOINT.finditer(data, 0, header.end)]:  # of several, the last counts
        return data[: found[-1].start()] + line.encode() + data[found[-1].end() :]
    after = _AFTER_VIEWPOINT.search(data, 0, header.end)
    assert after is not None  # every header ends with DATA
    ending = b"\r\n" if b"\r\n" in data[: header.end] else b"\n"
    return data[: after.start()] + line.encode() + ending + data[after.start() :]


def _encode_cloud(cloud: PointCloud) -> bytes:
    table = cloud_table(cloud)
    names = (XYZ + _NORMALS)[: table.shape[1]]
    viewpoint = _NO_VIEWPOINT
    if cloud.viewpoint is not None:  # without a rotation; 0 0 0 cannot be distinguished from an unknown position
        viewpoint = [*(repr(float(value)) for value in cloud.viewpoint), *_NO_VIEWPOINT[3:]]
    every = {"SIZE": table.itemsize, "TYPE": "F", "COUNT": 1}
    lines = [
        "# .PCD v0.7 - Point Cloud Data file format",
        "VERSION 0.7",
        f"FIELDS {' '.join(names)}",
        *(f"{key} {' '.join([str(value)] * len(names))}" for key, value in every.items()),
        f"WIDTH {len(table)}",
        "HEIGHT 1",
        f"VIEWPOINT {' '.join(viewpoint)}",
        f"POINTS {len(table)}",
        "DATA binary\n",
    ]
    return "\n".join(lines).encode() + encode_little_endian(table)


FORMAT = Format((".pcd",), has_start(rb"(VERSION|FIELDS)[ \t]"), _parse, _move, encode_cloud=_encode_cloud)
