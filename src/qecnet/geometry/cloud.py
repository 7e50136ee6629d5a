"""`PointCloud`: points in the user's own coordinates, and the conversion to normalised coordinates and back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from qecnet.algebra import rotate
from qecnet.geometry._pickling import PickledAsArrays


@dataclass(frozen=True, eq=False)
class PointCloud(PickledAsArrays):
    """Points, with normals and the position of the camera where these are known.

    Attributes:
        points: (N, 3), N ≥ 1, float32 or float64. Readers give float64: rounding map coordinates to float32 before
            they are centred loses half a metre, so only `normalized` rounds.
        normals: (N, 3) or None. A row of zeros means that this point's normal is not known.
        name: used in error messages; for a file, the file's name.
        centre, scale: (3,) float64 and a number: the user's coordinates are ``points * scale + centre``.
        non_finite, duplicates: how many points `clean` has dropped.
        viewpoint: (3,) float64, the position of the camera in the coordinates of the points; None if it is not known,
            or the points were seen from several sides.
    """

    points: Tensor
    normals: Tensor | None = None
    name: str = "cloud"
    centre: Tensor = field(default_factory=lambda: torch.zeros(3, dtype=torch.float64))
    scale: float = 1.0
    non_finite: int = 0
    duplicates: int = 0
    viewpoint: Tensor | None = None
    # Set for results of `clean` and their subsets; `dataclasses.replace` does not carry it over to other points.
    _is_clean: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        shape = tuple(self.points.shape)
        if len(shape) != 2 or shape[1] != 3 or shape[0] == 0:
            raise ValueError(f"{self.name}: points have the shape {shape}; a cloud needs (N, 3) with N at least 1")
        if self.points.dtype not in (torch.float32, torch.float64):
            raise ValueError(f"{self.name}: points are {self.points.dtype}; a cloud needs float32 or float64")
        if self.normals is not None and self.normals.shape != self.points.shape:
            raise ValueError(
                f"{self.name}: normals have the shape {tuple(self.normals.shape)} for points of {shape}; "
                "give one normal for each point, or none at all"
            )
        if self.viewpoint is not None and not (self.viewpoint.shape == (3,) and self.viewpoint.isfinite().all()):
            raise ValueError(f"{self.name}: the viewpoint is {self.viewpoint.tolist()}; give three finite coordinates")

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        normals = ", normals" if self.normals is not None else ""
        return f"PointCloud({self.name}: {len(self):,} points{normals}, {self.points.dtype})"

    def clean(self) -> PointCloud:
        """Drop points that are not finite, then repeated positions; the rest keep their order.

        Of repeated positions the first stays, with its normal. A normal that is not finite becomes zero: unknown.

        Returns:
            The cleaned cloud; this one if it was cleaned before.

        Raises:
            ValueError: where no point is finite.
        """
        if self._is_clean:
            return self
        finite = self.points.isfinite().all(-1)
        if not finite.any():
            raise ValueError(f"{self.name}: none of the {len(self):,} points has finite coordinates")
        kept = finite.nonzero().squeeze(-1)
        kept = kept[_first_of_each(self.points[kept])]
        normals = self.normals
        if normals is not None:
            normals = normals[kept]
            normals = torch.where(normals.isfinite().all(-1, keepdim=True), normals, 0)
        non_finite = len(self) - int(finite.sum())
        cleaned = replace(
            self,
            points=self.points[kept],
            normals=normals,
            non_finite=self.non_finite + non_finite,
            duplicates=self.duplicates + len(self) - non_finite - len(kept),
        )
        return cleaned._mark_clean()

    def _mark_clean(self) -> PointCloud:
        object.__setattr__(self, "_is_clean", True)
        return self

    def select(self, which: Tensor) -> PointCloud:
        """Select points, with their normals.

        Args:
            which: indices (M,) or a mask (N,).

        Returns:
            The cloud of these points.
        """
        normals = None if self.normals is None else self.normals[which]
        selected = replace(self, points=self.points[which], normals=normals)
        return selected._mark_clean() if self._is_clean else selected

    def seen_from(self, viewpoint: Tensor | None) -> PointCloud:
        """Set the position of the camera.

        Args:
            viewpoint: (3,), in the coordinates of the points; None if it is not known.

        Returns:
            The cloud with this viewpoint.
        """
        seen = replace(self, viewpoint=viewpoint)
        return seen._mark_clean() if self._is_clean else seen

    def rotated(self, q: Tensor) -> PointCloud:
        """Rotate about the user's origin; in float64, rounded once.

        Args:
            q: (4,), WXYZ, unit.

        Returns:
            The rotated cloud.
        """
        q, dtype = q.double(), self.points.dtype
        return replace(
            self,
            points=rotate(q, self.points.double()).to(dtype),
            normals=None if self.normals is None else rotate(q, self.normals.double()).to(dtype),
            centre=rotate(q, self.centre),
            viewpoint=None if self.viewpoint is None else rotate(q, self.viewpoint.double()),
        )

    def normalized(self, dtype: torch.dtype = torch.float32) -> PointCloud:
        """Move to zero mean and largest radius 1, in float64, and only then round to `dtype`.

        Where all points are equal there is no size to divide by: they are moved to the origin, and the scale stays.

        Args:
            dtype: of the points of the result.

        Returns:
            The cloud, whose `centre` and `scale` lead back to the user's coordinates (see `restore`).

        Raises:
            ValueError: where coordinates are not finite, or too large.
        """
        points = self.points.double()
        if (points == points[0]).all():
            centre, radius = points[0], 1.0
            points = torch.zeros_like(points)
        else:
            centre = points.mean(0)
            points = points - centre
            # Dividing by the largest coordinate first keeps the squares of 1e-200 and 1e200 representable.
            largest = points.abs().amax()
            radius = float((points / largest).norm(dim=-1).amax() * largest)
            points = points / radius
        scale = self.scale * radius
        if not (points.isfinite().all() and 0 < scale < float("inf")):
            raise ValueError(f"{self.name}: coordinates are not finite or too large to be centred; use other units")
        return replace(
            self,
            points=points.to(dtype),
            normals=None if self.normals is None else self.normals.to(dtype),
            centre=self.centre + self.scale * centre.to(self.centre.device),
            scale=scale,
            viewpoint=None if self.viewpoint is None else (self.viewpoint.double() - centre) / radius,
        )

    def restore(self, points: Tensor) -> Tensor:
        """Convert points from this cloud's coordinates to the user's own.

        Directions (normals, the axes of frames) are the same in both.

        Args:
            points: (..., 3).

        Returns:
            (..., 3) float64.
        """
        return points.double() * self.scale + self.centre.to(points.device)


def _first_of_each(points: Tensor) -> Tensor:
    """Indices, ascending, of the first point at each distinct position of (N, 3) finite points."""
    keys = _mix(points)
    ranked = np.sort(keys.numpy(force=True))  # ten times as fast as torch, and most clouds need no more
    if (ranked[1:] != ranked[:-1]).all():
        return torch.arange(len(points), device=points.device)
    order = keys.argsort(stable=True)
    equal = _same_as_previous(points[order])
    if (_same_as_previous(keys[order, None]) & ~equal).any():
        # Different positions may share a key and be sorted between two equal ones.
        order = _lexicographic(points)
        equal = _same_as_previous(points[order])
    first = torch.ones(len(points), dtype=torch.bool, device=points.device)
    first[order[1:][equal]] = False
    return first.nonzero().squeeze(-1)


def _same_as_previous(rows: Tensor) -> Tensor:
    """(N - 1,) whether each row of (N, D) but the first equals the row before it."""
    return (rows[1:] == rows[:-1]).all(-1)


def _mix(points: Tensor) -> Tensor:
    """(N,) int64 keys, equal for equal positions: one sort of these takes a fifth of sorting whole rows."""
    bits = (points.double() + 0.0).view(torch.int64)  # adding 0.0 gives −0.0 the bits of 0.0
    x, y, z = bits.unbind(-1)
    key = x * 0x1E3779B97F4A7C15
    key = ((key ^ (key >> 29)) + y) * 0x3F58476D1CE4E5B9
    key = ((key ^ (key >> 32)) + z) * 0x14D049BB133111EB
    return key ^ (key >> 31)


def _lexicographic(points: Tensor) -> Tensor:
    """Indices that sort (N, 3) points by x, then y, then z, equal ones in their given order."""
    order = torch.arange(len(points), device=points.device)
    for axis in (2, 1, 0):
        order = order[points[order, axis].argsort(stable=True)]
    return order
