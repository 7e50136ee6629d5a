"""Plain arrays that every parser returns, not yet checked against each other, and the helpers to make them."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_LIMIT_NAME = "QECNET_MAX_UNPACKED_MB"
_LIMIT_MB = 512.0


class Malformed(ValueError):
    """Says what is wrong with a file's content; `read` puts the file's name in front."""


class Parts(NamedTuple):
    """points: (N, 3) float64; faces: (F, 3) int64 or None for a cloud; normals: (N, 3) float64 or None.

    viewpoint: (3,) float64, the position of the camera, or None if the file does not have it.
    """

    points: NDArray[np.float64]
    faces: NDArray[np.int64] | None = None
    normals: NDArray[np.float64] | None = None
    viewpoint: NDArray[np.float64] | None = None


def check_unpacked_size(size: int) -> None:
    """Refuse compressed data that would unpack to more bytes than the user allows, before anything is allocated."""
    try:
        limit = float(os.environ.get(_LIMIT_NAME, _LIMIT_MB))
    except ValueError:
        raise Malformed(f"cannot be unpacked: the environment variable {_LIMIT_NAME} is not a number") from None
    if not size <= limit * 2**20:
        raise Malformed(
            f"unpacks to {size / 2**20:,.0f} MB, above the limit of {limit:,g} MB; "
            f"to read it anyway, set the environment variable {_LIMIT_NAME} to a larger number"
        )


def triangulate(corners: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """(T, 3) triangles of polygons, each cut into a fan about its first corner.

    Polygon p has `sizes[p]` corners; `corners` lists those of all polygons in order. Polygons with fewer than three
    corners have no surface and give no triangle.
    """
    triangles = np.maximum(sizes - 2, 0)
    first = np.repeat(np.cumsum(sizes) - sizes, triangles)
    step = np.arange(triangles.sum()) - np.repeat(np.cumsum(triangles) - triangles, triangles)
    triangle: NDArray[np.int64] = np.stack([first, first + step + 1, first + step + 2], axis=1)
    return corners[triangle]


def to_integers(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Counts and indices of a file as int64."""
    integers = values.astype(np.int64)  # NaN and values beyond int64 become some other number
    if (integers != values).any():
        raise Malformed("has an index or a count that is not a whole number; the file is damaged")
    return integers


def stack_columns(columns: Mapping[str, NDArray[Any]], names: tuple[str, ...]) -> NDArray[np.float64] | None:
    """(N, len(names)) from columns (N,), or None unless all of them are there."""
    if not all(name in columns for name in names):
        return None
    return np.stack([columns[name].astype(np.float64) for name in names], axis=1)


def parts_from_table(table: NDArray[np.float64]) -> Parts:
    """A cloud from (N, 3) to (N, 7) numbers without column names: x y z, and perhaps intensity, colour or a normal."""
    if table.ndim != 2 or not 3 <= table.shape[1] <= 7:
        shape = " × ".join(str(n) for n in table.shape)
        raise Malformed(
            f"holds {shape} numbers; a cloud has 3 to 7 columns (x y z, then intensity, colour or a normal)"
        )
    normals = find_normals(table)
    return Parts(table[:, :3], normals=None if normals is None else table[:, normals])


def find_normals(table: NDArray[np.float64]) -> slice | None:
    """The columns of a table without names that hold normals.

    These are the first three columns beyond x y z in which every row has unit length (to 1%), zero or NaN; anything
    else is mostly colours.
    """
    for start in range(3, table.shape[1] - 2):
        length = np.sqrt((table[:, start : start + 3] ** 2).sum(1))
        known = ~np.isnan(length) & (length != 0)
        if known.any() and (np.abs(length[known] - 1) < 0.01).all():
            return slice(start, start + 3)
    return None
