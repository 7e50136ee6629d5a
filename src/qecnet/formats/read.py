"""Read files as a `Mesh` or a `PointCloud`.

A file's content decides which format it has, and its extension only where the content does not.
"""

import os
import stat
import sys
from functools import cache
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qecnet.formats import arrays, las, obj, off, pcd, ply, scenes, stl, table
from qecnet.formats._format import Format
from qecnet.formats._numbers import blank_comments
from qecnet.formats._parts import Malformed, Parts
from qecnet.geometry import Mesh, PointCloud
from qecnet.schema import printable, system_reason
from qecnet.streams import STANDARD_INPUT

# The order in which contents are tried: signatures first, numbers in text last.
FORMATS = (
    arrays.NPY,
    las.FORMAT,
    las.LAZ,
    *scenes.SCENE_FORMATS,
    arrays.NPZ,
    stl.FORMAT,
    ply.FORMAT,
    pcd.FORMAT,
    off.FORMAT,
    obj.FORMAT,
    table.FORMAT,
    table.CSV,
)
BY_SUFFIX = {suffix: form for form in FORMATS for suffix in form.suffixes}
SUFFIXES = tuple(sorted(BY_SUFFIX))
"""The extensions that `read` knows, lower case, with the dot."""

_HEAD = 1 << 16
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class ReadError(ValueError):
    """A file cannot be read as a shape; the message names it and says why, in one sentence."""


def read(path: str | os.PathLike[str]) -> Mesh | PointCloud:
    """Read a file in any format of `SUFFIXES`, recognised by its content or else by its extension.

    A file with faces becomes one `Mesh` of all its objects, with polygons split into triangles; its normals are those
    of the faces. Any other file becomes a `PointCloud`, with normals if the file has one for each point. Coordinates
    are those of the file, in float64. Points that are not finite are dropped, and from a cloud exact duplicates too;
    `non_finite` and `duplicates` count them.

    The memory used is proportional to the size of the file, whatever its header declares; compressed files may unpack
    to 512 MB, or to the value of the environment variable QECNET_MAX_UNPACKED_MB.

    Args:
        path: the file; `-` is standard input.

    Returns:
        A mesh or a cloud, with the name of the file.

    Raises:
        ReadError: if the file cannot be read.
    """
    path = Path(path)
    data = load_bytes(path)
    try:
        return read_bytes(data, path)
    except ValueError as error:
        raise as_read_error(path, error) from error


def read_bytes(data: bytes, path: PurePath) -> Mesh | PointCloud:
    """Read the content of a file, as `read` does.

    Args:
        data: the content.
        path: the file's path, for its name and extension; it is not opened.

    Returns:
        A mesh or a cloud, with the name of the file.

    Raises:
        ValueError: if the content cannot be read; the message does not name the file.
    """
    points, faces, normals, viewpoint = parse(data, path.suffix.lower())
    if faces is not None:
        mesh = Mesh(_tensor(points), _tensor(faces), path.name)
        # Checked by NumPy, on one thread: on a busy machine, waking torch's threads took longer than the file.
        return mesh if np.isfinite(points).all() else mesh.clean()
    return PointCloud(
        _tensor(points),
        None if normals is None else _tensor(normals),
        path.name,
        viewpoint=None if viewpoint is None else _tensor(viewpoint),
    ).clean()


def read_cloud(
    path: str | os.PathLike[str], count: int = 10_000, *, generator: torch.Generator | int = 0
) -> PointCloud:
    """Read a cloud as it is in the file, or sample a mesh uniformly by area.

    Args:
        path: the file.
        count: number of points to sample from a mesh.
        generator: a generator, or the seed of a new one; by default a file gives the same points each time.

    Returns:
        The cloud.

    Raises:
        ReadError: if the file cannot be read, or its mesh has no area.
    """
    shape = read(path)
    if isinstance(shape, PointCloud):
        return shape
    if isinstance(generator, int):
        generator = torch.Generator().manual_seed(generator)
    try:
        return shape.sample(count, generator)
    except ValueError as error:
        raise as_read_error(Path(path), error) from error


def load_bytes(path: Path) -> bytes:
    """Load the content of a regular file, of a glTF with its separate .bin files, or of standard input."""
    if str(path) == STANDARD_INPUT:
        return _load_standard_input()
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ReadError(f"{path}: is a directory; give the path of a file")
        if not stat.S_ISREG(mode):
            raise ReadError(f"{path}: is a device or a pipe; give the path of a file, or - for standard input")
        data = path.read_bytes()
        return scenes.include_buffers(data, path.parent) if path.suffix.lower() == ".gltf" else data
    except Malformed as error:
        raise as_read_error(path, error) from error
    except OSError as error:
        reason = system_reason(error)
        raise ReadError(f"{path}: cannot be opened ({reason}); give the path of a file that can be read") from error


@cache
def _load_standard_input() -> bytes:
    """Load all of standard input, which can be read only once."""
    return sys.stdin.buffer.read()


def _tensor(array: NDArray[Any]) -> Tensor:
    # A copy: the array may be a view that would keep the rest of the file in memory.
    return torch.from_numpy(np.array(array, order="C"))


def as_read_error(path: Path, error: ValueError) -> ReadError:
    """Put the file's name in front of an error's message, which is made printable."""
    reason = str(error).removeprefix(f"{path.name}: ")
    return ReadError(f"{path}: {printable(reason)}")


def parse(data: bytes, suffix: str) -> Parts:
    """The arrays in a file's bytes; `suffix` is the file's lower-case extension, with the dot."""
    # Damaged bytes make numbers that do not fit: they become NaN or infinite, or change when converted, and are
    # found as such.
    with np.errstate(invalid="ignore", over="ignore"):
        return find_format(data, suffix).parse(data.removeprefix(BYTE_ORDER_MARK))


def find_format(data: bytes, suffix: str) -> Format:
    """The format of a file, by its content, or else by its extension."""
    if not data or data.isspace():
        raise Malformed("is empty; give a file that holds a shape")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Malformed("is UTF-16 text; save it as UTF-8 or ASCII")
    data = data.removeprefix(BYTE_ORDER_MARK)
    text = blank_comments(data[:_HEAD]).lstrip()
    form = next((one for one in FORMATS if one.matches(data, text)), BY_SUFFIX.get(suffix))
    if form is None:
        known = ", ".join(name[1:].upper() for name in SUFFIXES)
        raise Malformed(f"is not in a format that can be read; save it as one of {known}")
    return form
