"""From whatever holds a shape to the oriented points that a network reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from qecnet.formats import read
from qecnet.geometry import Mesh, OrientedPoints, PointCloud, PrepareConfig, prepare, sample_points
from qecnet.models.answer import Failure

Shape = str | os.PathLike[str] | ArrayLike | Tensor | PointCloud | Mesh
"""The path of a file, points (N, 3), a cloud or a mesh."""


def prepare_config(settings: Mapping[str, Any]) -> PrepareConfig:
    """The frames that a run's settings describe."""
    return PrepareConfig(**{name: settings[name] for name in ("points", "frames", "method")})


def sample_shape(shape: Shape, config: PrepareConfig, seed: int) -> PointCloud:
    """Read a shape and take at most `config.points` points of it: of a mesh's surface, or of a cloud that has more.

    The same seed takes the same points, whatever pose the shape is in. What comes from a file is named by its path.
    """
    cloud = sample_points(_read_shape(shape), config.points, torch.Generator().manual_seed(seed))
    return replace(cloud, normals=None) if cloud.normals is not None else cloud  # signs come from the cloud's centre


def prepare_shape(shape: Shape, config: PrepareConfig, seed: int) -> tuple[str, OrientedPoints, float]:
    """Read a shape, sample it and estimate its frames.

    Returns:
        Its name, what a network reads of it, and the milliseconds that this took.

    Raises:
        ValueError: for a file that cannot be read, and for a shape without any frame.
    """
    start = perf_counter()
    cloud = sample_shape(shape, config, seed)
    points = prepare(cloud, config)
    if not points.valid.any():
        raise ValueError(f"{cloud.name}: has no surface to see (its points lie on a line, or far apart); give a shape")
    return cloud.name, points, 1000 * (perf_counter() - start)


def prepare_file(path: str, config: PrepareConfig, seed: int) -> tuple[str, OrientedPoints, float] | Failure:
    """`prepare_shape` for one file of many, where a bad one stops no other."""
    try:
        return prepare_shape(path, config, seed)
    except (ValueError, OSError) as error:
        return Failure(path, str(error))


def _read_shape(shape: Shape) -> Mesh | PointCloud:
    if isinstance(shape, str | os.PathLike):
        return replace(read(shape), name=os.fspath(shape))
    if isinstance(shape, Mesh | PointCloud):
        return shape.clean()
    points = torch.as_tensor(shape).detach().cpu()
    return PointCloud(points if points.dtype in (torch.float32, torch.float64) else points.double()).clean()
