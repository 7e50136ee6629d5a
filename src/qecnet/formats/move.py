"""Move the shapes in files: points and normals move, and everything else stays as it is."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from qecnet.files import write_whole
from qecnet.formats import obj
from qecnet.formats._materials import MaterialCopy
from qecnet.formats.motion import Float64Array, Motion
from qecnet.formats.read import (
    BYTE_ORDER_MARK,
    as_read_error,
    find_format,
    load_bytes,
    parse,
    read_bytes,
)
from qecnet.formats.write import write
from qecnet.geometry import Mesh, PointCloud
from qecnet.streams import STANDARD_INPUT


def move_file(source: str | os.PathLike[str], target: str | os.PathLike[str], motion: Motion) -> list[Path]:
    """Write a copy of a file with its points and normals moved, whole or not at all.

    If the target has the source's extension or format, everything else in the file stays as it is, and numbers in text
    keep their number of digits. Otherwise the shape is converted to the format of the target's extension.

    The material libraries of an OBJ and the images that they refer to are copied next to the target: only `.mtl` and
    image files below the OBJ's folder, no hidden ones and no symbolic links. If a file with the same name and other
    content exists, the copy and the references to it get a name that begins with the target's.

    Args:
        source: the file to read; `-` is standard input.
        target: the file to write.
        motion: where points and normals go.

    Returns:
        The material files that were copied.

    Raises:
        ReadError: if the source cannot be read.
        ValueError: if the target's format cannot hold the shape.
        OSError: if the target cannot be written.
    """
    source, target = Path(source), Path(target)
    data, suffix = load_bytes(source), source.suffix.lower()
    try:
        form = find_format(data, suffix)
        is_converted = form.move is None or target.suffix.lower() not in (suffix, *form.suffixes)
        shape = _move_shape(read_bytes(data, source), motion) if is_converted else None
        moved = b"" if is_converted else move_bytes(data, suffix, motion)
    except ValueError as error:
        raise as_read_error(source, error) from error
    if shape is not None:
        write(target, shape)
        return []
    if str(source) == STANDARD_INPUT:
        write_whole(target, moved)
        return []
    mode = source.stat().st_mode
    if form is not obj.FORMAT:
        write_whole(target, moved, mode)
        return []
    materials = MaterialCopy(moved, source.parent, target)
    with materials.write():
        write_whole(target, materials.obj, mode)
    return materials.written


def move_bytes(data: bytes, suffix: str, motion: Motion) -> bytes:
    """Move the shape in the content of a file, which keeps its format.

    Args:
        data: the content of the file.
        suffix: its lower-case extension, with the dot.
        motion: where points and normals go.

    Returns:
        The content after the motion.

    Raises:
        ValueError: if the content cannot be read, or its format cannot be moved in place.
    """
    parse(data, suffix)  # a file that cannot be read is not moved, either
    form = find_format(data, suffix)
    if form.move is None:
        raise ValueError("is in a format that can be read but not written; convert it to another")
    return form.move(data.removeprefix(BYTE_ORDER_MARK), motion)


def _move_shape(shape: Mesh | PointCloud, motion: Motion) -> Mesh | PointCloud:
    if isinstance(shape, Mesh):
        return replace(shape, vertices=_apply(motion.points, shape.vertices))
    normals = None if shape.normals is None else _apply(motion.directions, shape.normals)
    viewpoint = None if shape.viewpoint is None else _apply(motion.points, shape.viewpoint[None])[0]
    return replace(shape, points=_apply(motion.points, shape.points), normals=normals, viewpoint=viewpoint)


def _apply(move: Callable[[Float64Array], Float64Array], values: Tensor) -> Tensor:
    return torch.from_numpy(move(values.double().numpy()))
