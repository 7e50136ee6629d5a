"""From a file, an array, a cloud or a mesh to the oriented points that a network reads."""

import os
from copy import copy
from dataclasses import replace
from numbers import Real
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from qecnet.algebra import identity_like, nearest_with_up
from qecnet.formats import read
from qecnet.geometry import (
    Mesh,
    OrientedPoints,
    PointCloud,
    PrepareConfig,
    check_viewpoint,
    drop_implausible_viewpoint,
    prepare,
    sample_points,
)
from qecnet.models.answer import Failure
from qecnet.schema import decode

Shape = str | os.PathLike[str] | ArrayLike | Tensor | PointCloud | Mesh
"""The path of a file, points (N, 3), a cloud or a mesh."""
_LINE = 4e-7  # of the radius: points so close to a line are on it, in the precision of most files


def prepare_config(settings: Any, path: Path) -> PrepareConfig:
    """Get the configuration of the frames from the training settings in the weights file at `path`.

    Raises:
        ValueError: if settings are damaged or missing; one sentence that names the file.
    """
    names = ("points", "frames", "method")
    known = settings if isinstance(settings, dict) else {}
    if missing := [name for name in names if name not in known]:
        raise ValueError(
            f"{path}: does not record how its network was trained ({missing[0]}); give weights that qec train wrote"
        )
    given = {name: known[name] for name in (*names, "sign") if name in known}
    return decode(given, PrepareConfig, path, "settings")


def check_list(shapes: list[Shape]) -> None:
    """Raise a ValueError for the points of one shape as a list, which would be read as a list of shapes."""
    first: Any = shapes[0] if shapes else None
    is_row = isinstance(first, list | tuple) and len(first) > 0 and isinstance(first[0], Real)
    if isinstance(first, Real) or is_row or getattr(first, "ndim", None) == 1:
        raise ValueError(
            "a list is read as a list of shapes; give the points of one shape as an array, such as numpy.array(points)"
        )


def sample_shape(shape: Shape, config: PrepareConfig, seed: int, viewpoint: Tensor | None = None) -> PointCloud:
    """Read a shape and sample at most `config.points` points: from a mesh's surface, or from a larger cloud.

    The same seed gives the same points, whatever the pose of the shape. A cloud from a file has the file's path as its
    name.

    Args:
        shape: a file, an array, a cloud or a mesh.
        config: how shapes are prepared.
        seed: of the sampling.
        viewpoint: (3,), the position of the camera; by default the one in the file, unless the shape cannot have been
            seen from there.

    Returns:
        The points, without normals.

    Raises:
        ValueError: if the file cannot be read, or the shape cannot have been seen from `viewpoint`.
    """
    whole = _read_shape(shape)
    cloud = sample_points(whole, config.points, torch.Generator().manual_seed(seed))
    if isinstance(whole, Mesh) and cloud.normals is not None:
        cloud = replace(cloud, normals=None)  # the orientation of a mesh's faces is not reliable
    if viewpoint is not None:
        cloud = cloud.seen_from(viewpoint)
        check_viewpoint(cloud)
    else:
        cloud = drop_implausible_viewpoint(cloud)
    return replace(cloud, normals=None) if cloud.normals is not None else cloud  # signs come from centre and viewpoint


def prepare_shape(
    shape: Shape, config: PrepareConfig, seed: int, viewpoint: Tensor | None = None
) -> tuple[str, OrientedPoints, float]:
    """Read a shape, sample it and estimate its frames.

    Networks that read candidates need positions and rough normals only: a shape without a valid frame, such as a few
    wires, gets normals along the directions to its centre.

    Returns:
        Its name, the oriented points, and the milliseconds that this took.

    Raises:
        ValueError: if the file cannot be read, or the shape has no valid frame; for a network that reads candidates,
            only if its points lie on a line.
    """
    start = perf_counter()
    cloud = sample_shape(shape, config, seed, viewpoint)
    points = prepare(cloud, config)
    if not points.valid.any():
        if _is_line(cloud):
            raise ValueError(f"{cloud.name}: has no surface (its points lie on a line); give points that do not")
        if not config.candidates:
            raise ValueError(
                f"{cloud.name}: has no surface that this model can read (its points are too sparse, or lie on lines or "
                "close to one); give more points, or use a model that verifies candidates, such as modelnet10"
            )
        points = _face_centre(points, config)
    return cloud.name, points, 1000 * (perf_counter() - start)


def _is_line(cloud: PointCloud) -> bool:
    """Check whether all points are on one line, as far as their precision shows."""
    small = cloud.normalized(torch.float64)
    axis = torch.linalg.svd(small.points, full_matrices=False)[2][0]
    off = (small.points - (small.points @ axis)[:, None] * axis).norm(dim=-1).amax()
    rounding = torch.finfo(cloud.points.dtype).eps * float(cloud.points.double().abs().amax() / small.scale)
    return float(off) <= _LINE + 2 * rounding


def _face_centre(points: OrientedPoints, config: PrepareConfig) -> OrientedPoints:
    """Make frames valid whose z axes, the normals, are along the directions to the centre; x axes are arbitrary.

    A network that reads candidates uses normals only. Without any, it would not see the positions either.
    """
    valid = points.positions.any(-1)  # padding, and a point at the centre itself, are at the origin
    inward = -points.positions if config.sign == "inward" else points.positions
    ups = torch.where(valid[:, None], inward, torch.tensor([0.0, 0.0, 1.0]))
    return replace(points, frames=nearest_with_up(identity_like(points.frames), ups), valid=valid)


def prepare_file(
    path: str, config: PrepareConfig, seed: int, viewpoint: Tensor | None = None
) -> tuple[str, OrientedPoints, float] | Failure:
    """Prepare one file of many; one that cannot be read does not stop the others."""
    try:
        return prepare_shape(path, config, seed, viewpoint)
    except (ValueError, OSError) as error:
        return Failure(path, str(error))


def _read_shape(shape: Shape) -> Mesh | PointCloud:
    if isinstance(shape, str | os.PathLike):
        # Unlike `replace`, a copy stays marked as clean.
        whole = copy(read(shape))
        object.__setattr__(whole, "name", os.fspath(shape))
        return whole
    if isinstance(shape, Mesh | PointCloud):
        return shape.clean()
    try:
        points = torch.as_tensor(shape).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{type(shape).__name__} is not a shape; give the path of a file, points (N, 3), a cloud or a mesh"
        ) from error
    return PointCloud(points if points.dtype in (torch.float32, torch.float64) else points.double()).clean()
