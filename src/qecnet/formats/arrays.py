"""NPY and NPZ. Nothing is ever unpickled, and no array is allocated beyond the bytes that back it."""

import io
import math
import struct
import zipfile
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from qecnet.formats._format import Format, cloud_table, has_signature
from qecnet.formats._parts import Malformed, Parts, check_unpacked_size, find_normals, parts_from_table
from qecnet.formats.motion import Motion, needs_double
from qecnet.geometry import PointCloud

_DEFLATE_RATIO = 1032  # the most that deflate can do: 258 bytes in two bits
_LOCAL_HEADER, _NAME_LENGTHS, _SIZES_FOLLOW = 30, 26, 8  # of a member: bytes, place of two lengths, a flag


def _parse_npy(data: bytes) -> Parts:
    return parts_from_table(_as_float(_load(io.BytesIO(data), len(data))))


def _parse_npz(data: bytes) -> Parts:
    """The array `points`, with or without `normals`; or the only array, whatever its name. No other is unpacked."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {_name(info): info for info in archive.infolist()}
            points = _points_name(members)
            if points not in members:
                found = ", ".join(name[:20] for name in sorted(members)[:8]) or "nothing"
                raise Malformed(f"has no array `points` (it has {found}); save the cloud under that name")
            parts = parts_from_table(_as_float(_load_member(archive, members[points])))
            if "normals" not in members or points == "normals":
                return parts
            normals = _as_float(_load_member(archive, members["normals"]))
            if normals.shape != parts.points.shape:
                raise Malformed(f"has normals of shape {normals.shape} for points of {parts.points.shape}")
            return parts._replace(normals=normals)
    except (Malformed, MemoryError):
        raise
    except Exception as error:  # on damaged archives, the standard library raises ten kinds of errors or more
        raise Malformed(f"is an NPZ that cannot be unpacked ({str(error)[:60]}); the file is damaged") from error


def _name(info: zipfile.ZipInfo) -> str:
    return info.filename.removesuffix(".npy")


def _points_name(members: dict[str, zipfile.ZipInfo]) -> str:
    return next(iter(members)) if len(members) == 1 else "points"


def _load_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Malformed("is packed in a way that NumPy does not write; save it with `np.savez`")
    with archive.open(info) as stream:
        return _load(stream, min(info.file_size, _DEFLATE_RATIO * info.compress_size), is_packed=True)


def _load(stream: IO[bytes], size: int, is_packed: bool = False) -> NDArray[Any]:
    """A numeric array from a stream of at most `size` bytes."""
    try:
        version = np.lib.format.read_magic(stream)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_column, dtype = read_header(stream)
    except Exception as error:  # the header is a Python literal, and a damaged one raises anything
        raise Malformed("has a damaged NPY header; save the array again") from error
    if dtype.kind not in "fiu":
        raise Malformed(f"holds {dtype} instead of numbers; save the points as an array of floats")
    count = math.prod(shape)
    length = count * dtype.itemsize
    if min(shape, default=1) < 1 or length > size:
        raise Malformed(f"declares an array of shape {shape} but has {size:,} bytes; it is empty or truncated")
    if is_packed:
        check_unpacked_size(8 * count)  # as float64
    raw = stream.read(length)
    if len(raw) != length:
        raise Malformed(f"declares {length:,} bytes of data but has {len(raw):,}; the file is truncated")
    return np.frombuffer(raw, dtype).reshape(shape, order="F" if by_column else "C")


def _as_float(array: NDArray[Any]) -> NDArray[np.float64]:
    return array.astype(np.float64, order="C")


def _move_npy(data: bytes, motion: Motion) -> bytes:
    return _move_array(_load(io.BytesIO(data), len(data)), motion)


def _move_array(rows: NDArray[Any], motion: Motion) -> bytes:
    values = _as_float(rows)
    is_kept = rows.dtype.kind == "f" and not needs_double(values[:, :3], motion, [rows.dtype])
    moved = np.array(rows, rows.dtype if is_kept else np.float64, order="K")
    moved[:, :3] = motion.points(values[:, :3])
    normals = find_normals(values)
    if normals is not None:
        moved[:, normals] = motion.directions(values[:, normals])
    return _save(np.save, moved)


def _move_npz(data: bytes, motion: Motion) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(out, "w") as moved:
        members = {_name(info): info for info in archive.infolist()}
        points = _points_name(members)
        for name, info in members.items():
            if name == points:
                moved.writestr(info, _move_array(_load_member(archive, info), motion))
            elif name == "normals":
                normals = _load_member(archive, info)
                rotated = motion.directions(_as_float(normals))
                moved.writestr(info, _save(np.save, rotated.astype(normals.dtype)))
            else:
                _copy_packed(data, info, moved)
    return out.getvalue()


def _copy_packed(data: bytes, info: zipfile.ZipInfo, target: zipfile.ZipFile) -> None:
    """Copy a member of the archive `data` as it is packed, without unpacking it."""
    names = struct.unpack_from("<HH", data, info.header_offset + _NAME_LENGTHS)
    start = info.header_offset + _LOCAL_HEADER + sum(names)
    assert target.fp is not None
    target.fp.seek(target.start_dir)
    info.header_offset, info.flag_bits = target.start_dir, info.flag_bits & ~_SIZES_FOLLOW
    target.fp.write(info.FileHeader() + data[start : start + info.compress_size])
    target.start_dir = target.fp.tell()
    target.filelist.append(info)
    target.NameToInfo[info.filename] = info


def _save(save: Any, *arrays: NDArray[Any], **named: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    save(file, *arrays, allow_pickle=False, **named)
    return file.getvalue()


def _encode_npy(cloud: PointCloud) -> bytes:
    return _save(np.save, cloud_table(cloud))


def _encode_npz(cloud: PointCloud) -> bytes:
    normals = {} if cloud.normals is None else {"normals": cloud.normals.numpy(force=True)}
    return _save(np.savez, points=cloud.points.numpy(force=True), **normals)


NPY = Format((".npy",), has_signature(b"\x93NUMPY"), _parse_npy, _move_npy, encode_cloud=_encode_npy)
NPZ = Format((".npz",), has_signature(b"PK\x03\x04", b"PK\x05\x06"), _parse_npz, _move_npz, encode_cloud=_encode_npz)
