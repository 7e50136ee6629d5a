"""From whatever holds a shape to what a network reads, as its training's settings describe it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from qecnet.datasets.drawn import drawn
from qecnet.formats import read
from qecnet.geometry import Mesh, PointCloud, PrepareConfig, Prepared, prepare
from qecnet.nn import Capsules, Pooling

Shape = str | os.PathLike[str] | ArrayLike | Tensor | PointCloud | Mesh
"""The path of a file, points (N, 3), a cloud or a mesh."""


def prepare_config(settings: Mapping[str, Any]) -> PrepareConfig:
    """The frames and patches that a run's settings describe."""
    names = ("points", "frames", "patches", "neighbours", "method")
    return PrepareConfig(**{name: settings[name] for name in names})


def as_cloud(shape: Shape, config: PrepareConfig, seed: int) -> PointCloud:
    """The points of a shape, at most `config.points`: drawn from a mesh, or from a cloud that has more.

    The same seed draws the same points, whatever pose the shape is in. What comes from a file is named by its path.
    """
    whole = _shape(shape)
    generator = torch.Generator().manual_seed(seed)
    cloud = drawn(whole, config, 1.0, generator)
    return replace(cloud, normals=None)  # signs come from the cloud's centre, and not every file has normals


def prepared_cloud(cloud: PointCloud, config: PrepareConfig) -> Prepared:
    """With its frames; where there is none, nothing can be said of a shape."""
    prepared = prepare(cloud, config)
    if not prepared.valid.any():
        raise ValueError(f"{cloud.name}: has no surface to see (its points lie on a line, or far apart); give a shape")
    return prepared


def network_inputs(prepared: Sequence[Prepared], device: torch.device | None = None) -> tuple[Capsules, list[Pooling]]:
    """What a network reads of several prepared clouds."""
    points, poses, valid, centres, neighbours, mask = (
        torch.stack([getattr(p, name) for p in prepared]).to(device)
        for name in ("points", "poses", "valid", "centres", "neighbours", "mask")
    )
    return Capsules.primary(points, poses, valid), [Pooling.at(points, centres, neighbours, mask)]


def _shape(shape: Shape) -> Mesh | PointCloud:
    if isinstance(shape, str | os.PathLike):
        return replace(read(shape), name=os.fspath(shape))
    if isinstance(shape, Mesh):
        return shape.clean()
    if isinstance(shape, PointCloud):
        return shape.clean()
    points = torch.as_tensor(shape).detach().cpu()
    return PointCloud(points if points.dtype in (torch.float32, torch.float64) else points.double()).clean()
