"""Points and normals in binary files, moved in the precision that they have; all else stays as it was.

What comes here has been read before, so headers are known to be right.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import lzf
import numpy as np
from numpy.typing import NDArray

from qecnet.formats import _pcd, _ply, _stl
from qecnet.formats._move_text import PCD_NAMES, pcd_header, vertex_element
from qecnet.formats._parts import Malformed, from_columns
from qecnet.formats.rigid import Array, Rigid


def stl(data: bytes, motion: Rigid) -> bytes:
    triangles = np.frombuffer(data, _stl._TRIANGLE, _stl._count(data), _stl._HEAD).copy()
    triangles["corners"] = motion.points(triangles["corners"].astype(np.float64).reshape(-1, 3)).reshape(-1, 3, 3)
    triangles["normal"] = motion.directions(triangles["normal"].astype(np.float64))
    return data[: _stl._HEAD] + triangles.tobytes() + data[_stl._HEAD + triangles.nbytes :]


def ply(data: bytes, motion: Rigid) -> bytes:
    header = _ply._HEADER.match(data)
    assert header is not None
    elements = _ply._elements(header[2].decode("latin-1"))[1]
    element, before = vertex_element(memoryview(data)[header.end() :], elements)
    start = header.end() + before
    row = np.dtype([(str(place), p.type) for place, p in enumerate(element.properties)])
    rows = np.frombuffer(data, row, element.rows, start).copy()
    columns = {p.name: rows[str(place)] for place, p in enumerate(element.properties)}
    _move_columns(columns, (("x", "y", "z"), ("nx", "ny", "nz")), motion)
    return data[:start] + rows.tobytes() + data[start + rows.nbytes :]


def pcd(data: bytes, motion: Rigid) -> bytes:
    header = _pcd._HEADER.match(data)
    assert header is not None
    (fields, count), start = pcd_header(header[1]), header.end()
    if header[2] == b"binary_compressed":
        # One field of all points after another.
        body = np.frombuffer(_unpacked(data[start:]), np.uint8).copy()
        offsets = np.cumsum([0, *(count * field.size for field in fields)])
        columns = {
            field.name: np.ndarray((count, field.items), field.type, body.data, offset)[:, 0]
            for field, offset in zip(fields, offsets.tolist(), strict=False)
        }
        _move_columns(columns, PCD_NAMES, motion)
        return data[:start] + _packed(body.tobytes())
    row = np.dtype([(str(place), field.type, (field.items,)) for place, field in enumerate(fields)])
    rows = np.frombuffer(data, row, count, start).copy()
    columns = {field.name: rows[str(place)][:, 0] for place, field in enumerate(fields)}
    _move_columns(columns, PCD_NAMES, motion)
    return data[:start] + rows.tobytes() + data[start + rows.nbytes :]


def npy(data: bytes, motion: Rigid) -> bytes:
    rows = np.load(io.BytesIO(data), allow_pickle=False)
    points = np.array(rows, rows.dtype if rows.dtype.kind == "f" else np.float64, order="K")
    points[:, :3] = motion.points(rows[:, :3].astype(np.float64))
    if from_columns(rows.astype(np.float64)).normals is not None:
        points[:, 3:6] = motion.directions(rows[:, 3:6].astype(np.float64))
    return _saved(points)


def npz(data: bytes, motion: Rigid) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(out, "w") as moved:
        members = archive.infolist()
        for info in members:
            content, name = archive.read(info), info.filename.removesuffix(".npy")
            if name == "points" or len(members) == 1:
                content = npy(content, motion)
            elif name == "normals":
                normals = np.load(io.BytesIO(content), allow_pickle=False)
                content = _saved(motion.directions(normals.astype(np.float64)).astype(normals.dtype))
            moved.writestr(info, content)
    return out.getvalue()


def _move_columns(columns: Mapping[str, NDArray[Any]], groups: Sequence[tuple[str, ...]], motion: Rigid) -> None:
    """In place: the points, and the normals where there are any."""
    moves: tuple[Callable[[Array], Array], ...] = motion.points, motion.directions
    for group, move in zip(groups, moves, strict=True):
        if {*group} <= {*columns}:
            if any(columns[name].dtype.kind != "f" for name in group):
                raise Malformed("has whole numbers as coordinates, which cannot be turned; write it anew with floats")
            moved = move(np.stack([columns[name].astype(np.float64) for name in group], axis=1))
            for name, column in zip(group, moved.T, strict=True):
                columns[name][:] = column


def _unpacked(body: bytes) -> bytes:
    packed, unpacked = (int.from_bytes(body[at : at + 4], "little") for at in (0, 4))
    found: bytes = lzf.decompress(body[8 : 8 + packed], unpacked)
    return found


def _packed(raw: bytes) -> bytes:
    packed: bytes = lzf.compress(raw, 2 * len(raw) + 64)  # room enough for what cannot be made smaller
    return len(packed).to_bytes(4, "little") + len(raw).to_bytes(4, "little") + packed


def _saved(array: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()
