"""What every parser hands to `read`: plain arrays, not yet checked against each other."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Malformed(ValueError):
    """What is wrong with a file's content; `read` puts the file's name before it."""


class Parts(NamedTuple):
    """points: (N, 3) float64; faces: (F, 3) int64 or None for a cloud; normals: (N, 3) float64 or None."""

    points: NDArray[np.float64]
    faces: NDArray[np.int64] | None = None
    normals: NDArray[np.float64] | None = None


def fan(corners: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """(T, 3) triangles of polygons, each cut into a fan about its first corner.

    Polygon p has `sizes[p]` corners, one polygon's after another's in `corners`; those of fewer than three corners
    have no surface and give no triangle.
    """
    triangles = np.maximum(sizes - 2, 0)
    first = np.repeat(np.cumsum(sizes) - sizes, triangles)
    step = np.arange(triangles.sum()) - np.repeat(np.cumsum(triangles) - triangles, triangles)
    triangle: NDArray[np.int64] = np.stack([first, first + step + 1, first + step + 2], axis=1)
    return corners[triangle]


def whole(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Numbers that a file uses as counts or indices, as int64."""
    integers = values.astype(np.int64)  # NaN and what int64 does not hold come out as some other number
    if (integers != values).any():
        raise Malformed("has an index or a count that is not a whole number; the file is damaged")
    return integers


def stack(columns: dict[str, NDArray[Any]], names: tuple[str, ...]) -> NDArray[np.float64] | None:
    """(N, len(names)) from columns (N,), or None unless all of them are there."""
    if not all(name in columns for name in names):
        return None
    return np.stack([columns[name].astype(np.float64) for name in names], axis=1)


def from_columns(table: NDArray[np.float64]) -> Parts:
    """A cloud from (N, 3) or (N, 6) numbers without names.

    Columns four to six are normals where every row of them has unit length (to 1%), zero or NaN; anything else is
    mostly colours, and left out.
    """
    if table.ndim != 2 or table.shape[1] not in (3, 6):
        shape = " × ".join(str(n) for n in table.shape)
        raise Malformed(f"holds {shape} numbers; a cloud has 3 columns (x y z) or 6 (and a normal)")
    points, extra = table[:, :3], table[:, 3:]
    if extra.size == 0:
        return Parts(points)
    length = np.sqrt((extra**2).sum(1))
    known = ~np.isnan(length) & (length != 0)
    are_normals = known.any() and (np.abs(length[known] - 1) < 0.01).all()
    return Parts(points, normals=extra if are_normals else None)
