"""A new sample of a shape: what training and tests look at each time."""

from __future__ import annotations

from dataclasses import replace

import torch

from qecnet.geometry import Mesh, PointCloud, PrepareConfig, random_points


def drawn(
    shape: Mesh | PointCloud, config: PrepareConfig, keep: float, generator: torch.Generator, thinned: float = 1.0
) -> PointCloud:
    """`config.points` new points of a mesh, or of a cloud that has more; of a smaller cloud, the share `keep`.

    `thinned` is the share that is left of these.
    """
    if isinstance(shape, Mesh):
        return shape.sample(max(config.neighbours, round(thinned * config.points)), generator)
    most = config.points if len(shape) > config.points else keep * len(shape)
    count = min(len(shape), max(config.neighbours, round(thinned * most)))
    if count == len(shape):
        return shape
    kept = random_points(shape.points, count, generator)
    normals = None if shape.normals is None else shape.normals[kept]
    return replace(shape, points=shape.points[kept], normals=normals)
