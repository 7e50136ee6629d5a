"""Any file that holds a shape, as a `Mesh` or a `PointCloud`."""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qecnet.formats import _formats
from qecnet.geometry.cloud import PointCloud
from qecnet.geometry.mesh import Mesh


class ReadError(ValueError):
    """A file cannot be read as a shape; the message names it and says why, in one sentence."""


def read(path: str | os.PathLike[str]) -> Mesh | PointCloud:
    """Reads OFF, OBJ, PLY, STL, PCD, XYZ/TXT/CSV, NPY or NPZ, told apart by content where the extension lies.

    What has faces is a `Mesh`, all objects of a file together, with polygons cut into triangles (its normals are its
    faces', whatever the file gives); everything else is a `PointCloud`, with normals where the file gives each point
    one. Coordinates are the file's own, in float64. What is not finite has been dropped, and from a cloud exact
    repeats too: see the counts `non_finite` and `duplicates`.

    Raises `ReadError` for anything that cannot be read. The memory used is in proportion to the file's length, whatever
    its header promises.
    """
    path = Path(path)
    data = _load(path)
    try:
        return shape_of(data, path)
    except ValueError as error:
        raise _read_error(path, error) from error


def shape_of(data: bytes, path: PurePath) -> Mesh | PointCloud:
    """The shape in the bytes of a file of this path, which gives its name and extension."""
    points, faces, normals = _formats.parse(data, path.suffix.lower())
    if faces is not None:
        mesh = Mesh(_tensor(points), _tensor(faces), path.name)
        # Asked of NumPy, on one thread: on a busy machine, torch's waking of others took longer than the file.
        return mesh if np.isfinite(points).all() else mesh.clean()
    return PointCloud(_tensor(points), None if normals is None else _tensor(normals), path.name).clean()


def read_cloud(
    path: str | os.PathLike[str], count: int = 10_000, *, generator: torch.Generator | int = 0
) -> PointCloud:
    """A cloud as it is in the file, or `count` points drawn from a mesh uniformly by area.

    `generator` is a generator or the seed of a new one: by default a file gives the same points each time.
    """
    shape = read(path)
    if isinstance(shape, PointCloud):
        return shape
    if isinstance(generator, int):
        generator = torch.Generator().manual_seed(generator)
    try:
        return shape.sample(count, generator)
    except ValueError as error:
        raise _read_error(Path(path), error) from error


def _load(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ReadError(f"{path}: is a directory; give the path of a file")
        if not stat.S_ISREG(mode):
            raise ReadError(f"{path}: is a device or a pipe; give the path of a file")
        return path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ReadError(f"{path}: cannot be opened ({reason}); give the path of a file that can be read") from error


def _tensor(array: NDArray[Any]) -> Tensor:
    # A copy of its own: the array may be a view that would keep all the rest of the file in memory.
    return torch.from_numpy(np.array(array, order="C"))


def _read_error(path: Path, error: ValueError) -> ReadError:
    reason = str(error).removeprefix(f"{path.name}: ")
    # What a damaged file puts into the sentence must not move a terminal's cursor.
    return ReadError(f"{path}: " + "".join(c if c.isprintable() else "?" for c in reason))
