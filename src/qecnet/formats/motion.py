"""Motions of points and normals."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qecnet.formats._parts import Malformed, stack_columns

Float64Array = NDArray[np.float64]
XYZ = ("x", "y", "z")
_DETAIL = 1e-5  # share of a shape's size that coordinates have to resolve


@dataclass(frozen=True, eq=False)
class Motion:
    """The map `x → scale · rotation (x − about) + about + translation`.

    Attributes:
        rotation: (3, 3) float64.
        translation: (3,) float64.
        about: (3,) float64, the point that stays in place when there is no translation.
        scale: a factor for units that differ; 1 for a rigid motion.
    """

    rotation: Float64Array
    translation: Float64Array
    about: Float64Array
    scale: float = 1.0

    def points(self, points: Float64Array) -> Float64Array:
        """Move points.

        Args:
            points: (N, 3).

        Returns:
            (N, 3). Rows that are not finite stay as they are.
        """
        return _change_finite(
            points, lambda rows: self.scale * ((rows - self.about) @ self.rotation.T) + (self.about + self.translation)
        )

    def directions(self, directions: Float64Array) -> Float64Array:
        """Rotate normals, which have no position and keep their length.

        Args:
            directions: (N, 3).

        Returns:
            (N, 3). Rows that are not finite stay as they are.
        """
        return _change_finite(directions, lambda rows: rows @ self.rotation.T)

    @property
    def matrix(self) -> Float64Array:
        """The motion as a matrix that multiplies homogeneous column vectors. (4, 4)"""
        matrix = np.eye(4)
        matrix[:3, :3] = self.scale * self.rotation
        matrix[:3, 3] = self.points(np.zeros((1, 3)))[0]
        return matrix


def _change_finite(rows: Float64Array, change: Callable[[Float64Array], Float64Array]) -> Float64Array:
    """The rows with `change` applied to those that are finite: organised clouds have NaN where nothing was seen."""
    finite = np.isfinite(rows).all(-1)
    if finite.all():
        return change(rows)
    changed = rows.copy()
    changed[finite] = change(rows[finite])
    return changed


def move_columns(columns: Mapping[str, NDArray[Any]], normals: tuple[str, ...], motion: Motion) -> None:
    """Move the columns x, y and z in place, and rotate those named `normals` if there are any."""
    for names, move in ((XYZ, motion.points), (normals, motion.directions)):
        values = stack_columns(columns, names)
        if values is not None:
            check_float([columns[name].dtype.kind == "f" for name in names])
            for name, column in zip(names, move(values).T, strict=True):
                columns[name][:] = column


def needs_double(points: Float64Array, motion: Motion, dtypes: Iterable[np.dtype[Any]]) -> bool:
    """Whether moved points would lose detail in the types that a file stores them in, and doubles are finer.

    They lose detail if the distance between neighbouring numbers of the coarsest type, at the largest coordinate after
    the motion, is more than 1e-5 of the shape's size and more than twice what it was before the motion. `points` are
    those before the motion, (N, 3), and `dtypes` those of x, y and z.
    """
    dtype = min(dtypes, key=lambda one: one.itemsize)
    return dtype.itemsize < 8 and _is_coarser(dtype, motion.points(points), 2 * motion.scale * _spacing(dtype, points))


def check_single(points: Float64Array, kind: str) -> None:
    """Raise `Malformed` for points (N, 3) that would lose detail as float32, all that the format `kind` can store."""
    with np.errstate(over="ignore"):
        is_exact = np.array_equal(points.astype(np.float32), points, equal_nan=True)
    if not is_exact and _is_coarser(np.dtype(np.float32), points, 0.0):
        raise too_coarse(kind)


def too_coarse(kind: str) -> Malformed:
    """The error for points that would lose detail in the format `kind`."""
    return Malformed(
        f"{kind} stores coordinates as float32, which is too coarse for this shape so far from the origin; "
        "write it as PLY or OBJ"
    )


def _is_coarser(dtype: np.dtype[Any], points: Float64Array, allowed: float) -> bool:
    """Whether a type resolves points (N, 3) neither to `_DETAIL` of their size nor to the distance `allowed`."""
    finite = points[np.isfinite(points).all(1)]
    size = float(np.ptp(finite, axis=0).max()) if len(finite) else 0.0
    return len(finite) > 0 and not _spacing(dtype, points) <= max(_DETAIL * size, allowed)


def _spacing(dtype: np.dtype[Any], points: Float64Array) -> float:
    """The distance between neighbouring numbers of a type at the largest coordinate; NaN if it cannot hold that."""
    finite = points[np.isfinite(points).all(1)]
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.spacing(dtype.type(np.abs(finite).max(initial=0.0))))


def check_float(are_floats: list[bool]) -> None:
    """Raise `Malformed` for coordinates that a file declares to be integers."""
    if not all(are_floats):
        raise Malformed("stores its coordinates as integers, which cannot be rotated; save it with floats")
