"""NPY and NPZ. Nothing is ever unpickled, and no array is made larger than the bytes there are for it."""

from __future__ import annotations

import io
import math
import zipfile
from typing import IO

import numpy as np
from numpy.typing import NDArray

from qecnet.formats._parts import Malformed, Parts, from_columns

_DEFLATE_RATIO = 1032  # 258 bytes in two bits are the most that deflate can do


def parse_npy(data: bytes) -> Parts:
    return from_columns(_array(io.BytesIO(data), len(data)))


def parse_npz(data: bytes) -> Parts:
    """The array `points`, with `normals` beside it or not; or the only array, whatever its name."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            name = "points" if "points" in members or len(members) != 1 else next(iter(members))
            if name not in members:
                found = ", ".join(name[:20] for name in sorted(members)[:8]) or "nothing"
                raise Malformed(f"has no array `points` (it has {found}); save the cloud under that name")
            parts = from_columns(_member(archive, members[name]))
            if "normals" not in members:
                return parts
            normals = _member(archive, members["normals"])
            if normals.shape != parts.points.shape:
                raise Malformed(f"has normals of shape {normals.shape} for points of {parts.points.shape}")
            return parts._replace(normals=normals)
    except (Malformed, MemoryError):
        raise
    except Exception as error:  # damage makes the standard library's unzipping raise ten kinds of error, if not more
        raise Malformed(f"is an NPZ that cannot be unpacked ({str(error)[:60]}); the file is damaged") from error


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[np.float64]:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Malformed("is packed in a way that NumPy does not write; save it anew with `np.savez`")
    with archive.open(info) as stream:
        return _array(stream, min(info.file_size, _DEFLATE_RATIO * info.compress_size))


def _array(stream: IO[bytes], size: int) -> NDArray[np.float64]:
    """A numeric array from a stream of at most `size` bytes, as float64."""
    try:
        version = np.lib.format.read_magic(stream)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_column, dtype = read_header(stream)
    except Exception as error:  # the header is a Python literal, and there is no end to what a damaged one raises
        raise Malformed("has a damaged NPY header; save the array anew") from error
    if dtype.kind not in "fiu":
        raise Malformed(f"holds {dtype} instead of numbers; save the points as an array of floats")
    length = math.prod(shape) * dtype.itemsize
    if min(shape, default=1) < 1 or length > size:
        raise Malformed(f"promises numbers of shape {shape} and has {size:,} bytes; it is empty or was cut short")
    raw = stream.read(length)
    if len(raw) != length:
        raise Malformed(f"promises {length:,} bytes of numbers and has {len(raw):,}; the file was cut short")
    array = np.frombuffer(raw, dtype).reshape(shape, order="F" if by_column else "C")
    return array.astype(np.float64, order="C")
