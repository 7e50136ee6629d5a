"""LAS and LAZ, the formats of laser scanners, through laspy. Takes the extra `qecnet[formats]`.

LAZ is decoded on one thread: the threads of the parallel decoder are missing from a process that is forked after its
first use, which then waits for them forever.
"""

import io
import struct
from functools import partial
from typing import Any

import numpy as np

from qecnet.formats._format import Format, has_signature
from qecnet.formats._parts import Malformed, Parts, check_unpacked_size
from qecnet.formats.motion import Float64Array, Motion
from qecnet.formats.scenes import import_extra
from qecnet.geometry import PointCloud
from qecnet.streams import discard_stderr

_VARIABLE_CHUNKS = 0xFFFFFFFF
_LARGEST_CHUNK = 5_000_000  # points; a hundred times what LASzip writes
_STEPS = 10**9  # coordinates are stored as whole multiples of a scale; int32 holds two billion


def _parse(data: bytes) -> Parts:
    file = _load(data)
    points = np.stack([file.x, file.y, file.z], axis=1).astype(np.float64)
    if len(points) == 0:
        raise Malformed("has no points; a cloud needs at least one")
    return Parts(points)


def _import_laspy() -> Any:
    return import_extra("laspy", "a LAS or LAZ file")


def _load(data: bytes) -> Any:
    laspy = _import_laspy()
    _check_records(data)
    try:
        stream, backend = io.BytesIO(data), laspy.LazBackend.Lazrs
        # The decoder of LAZ prints a backtrace before it raises.
        with discard_stderr(), laspy.open(stream, closefd=False, laz_backend=backend) as reader:
            header = reader.header
            size = header.point_count * header.point_format.size
            if header.are_points_compressed:
                check_unpacked_size(size)
                _check_chunk_size(header)
                _check_chunks(data, header.offset_to_point_data, header.point_count)
            elif header.offset_to_point_data + size > len(data):
                raise Malformed(f"declares {header.point_count:,} points but ends before the last one; it is truncated")
            return reader.read()
    except (Malformed, MemoryError):
        raise
    except BaseException as error:  # the decoder of LAZ raises its own exception, which is not a subclass of Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        raise Malformed(f"cannot be read as LAS or LAZ ({str(error)[:60]}); the file is damaged") from error


def _check_records(data: bytes) -> None:
    """Refuse more records than the file has room for: laspy would read them one by one."""
    for place, least, since in ((100, 54, 0), (243, 60, 4)):  # variable length records, and extended ones
        if len(data) >= place + 4 and data[25] >= since:
            (count,) = struct.unpack_from("<I", data, place)
            if count * least > len(data):
                raise Malformed(f"declares {count:,} records, more than fit into it; the file is damaged")


def _check_chunk_size(header: Any) -> None:
    """Refuse chunks of no points, or of more than any writer makes: the decoder of LAZ allocates a whole one."""
    for record in header.vlrs.get("LasZipVlr"):
        (size,) = struct.unpack_from("<I", record.record_data, 12)
        if size != _VARIABLE_CHUNKS and not 0 < size <= max(header.point_count, _LARGEST_CHUNK):
            raise Malformed(f"declares compressed chunks of {size:,} points each; the file is damaged")


def _check_chunks(data: bytes, start: int, points: int) -> None:
    """Refuse a table of more chunks than points: the decoder of LAZ would end the process when memory runs out."""
    place = int.from_bytes(data[start : start + 8], "little", signed=True)
    if place == -1:  # a file that was written as a stream has it at its end
        place = int.from_bytes(data[-8:], "little", signed=True)
    if not start < place <= len(data) - 8:
        raise Malformed("has no table of its compressed chunks; it is truncated or damaged")
    (chunks,) = struct.unpack_from("<I", data, place + 4)
    if chunks > min(points, len(data)):
        raise Malformed(f"declares {chunks:,} compressed chunks of {points:,} points; the file is damaged")


def _move(data: bytes, motion: Motion) -> bytes:
    file = _load(data)
    _set_points(file, motion.points(np.stack([file.x, file.y, file.z], axis=1).astype(np.float64)))
    return _save(file, file.header.are_points_compressed)


def _set_points(file: Any, points: Float64Array) -> None:
    """Store points with the file's own resolution, or a coarser one if they would not fit."""
    low, high = points.min(0), points.max(0)
    offsets = np.round((low + high) / 2)
    scales = np.maximum(file.header.scales, 10.0 ** np.ceil(np.log10(np.maximum(high - low, 1e-300) / _STEPS)))
    for part in (file.header, file.points):  # `change_scaling` would convert the old coordinates, which may not fit
        part.scales, part.offsets = scales, offsets
    file.x, file.y, file.z = points.T


def _save(file: Any, compress: bool) -> bytes:
    laspy, out = _import_laspy(), io.BytesIO()
    file.write(out, do_compress=compress, laz_backend=laspy.LazBackend.Lazrs)
    return out.getvalue()


def _encode(cloud: PointCloud, compress: bool) -> bytes:
    laspy = _import_laspy()
    header = laspy.LasHeader(point_format=0, version="1.2")
    header.scales = np.full(3, 1e-12)
    file = laspy.LasData(header)
    points = cloud.points.double().numpy(force=True)
    file.x, file.y, file.z = np.zeros((3, len(points)))
    _set_points(file, points)
    return _save(file, compress)


_matches = has_signature(b"LASF")
FORMAT = Format((".las",), _matches, _parse, _move, encode_cloud=partial(_encode, compress=False))
LAZ = Format((".laz",), _matches, _parse, _move, encode_cloud=partial(_encode, compress=True))
