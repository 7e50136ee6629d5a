"""A shape as the page shows it: centred, of radius 1, sampled and corrupted as requested."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from qecnet.algebra import rotate
from qecnet.evaluation import Corruption, CorruptionKind
from qecnet.geometry import Mesh, PointCloud, PrepareConfig
from qecnet.models import sample_shape
from qecnet.viewer.request import CorruptionLevels

_MAX_DRAWN = 200_000
"""Meshes with more vertices or triangles are shown as points."""


@dataclass(frozen=True, eq=False)
class ViewedShape:
    """A shape of radius 1.

    Attributes:
        name: the file's name, or the class of a gallery shape.
        size: how many points or triangles it has, in words.
        cloud: the corrupted points that the network reads, in the shape's own pose.
        mesh: vertices (V, 3) and faces (F, 3) to draw, or nothing.
    """

    name: str
    size: str
    cloud: PointCloud
    mesh: dict[str, Tensor]

    def rotated(self, rotation: tuple[float, float, float, float]) -> PointCloud:
        """Returns the points, rotated about the centre by a quaternion, WXYZ."""
        points = rotate(torch.tensor(rotation, dtype=torch.float64), self.cloud.points)
        return replace(self.cloud, points=points)


def view_shape(shape: Mesh | PointCloud, corruption: CorruptionLevels, config: PrepareConfig) -> ViewedShape:
    """Samples points as a model does and corrupts them, each kind of corruption with a generator of its own."""
    whole = sample_shape(shape, config, corruption.seed).normalized(torch.float64)
    cloud = replace(whole, centre=torch.zeros(3, dtype=torch.float64), scale=1.0)
    kinds: tuple[CorruptionKind, ...] = ("occlusion", "points", "noise", "outliers")
    for number, kind in enumerate(kinds):
        if (level := getattr(corruption, kind)) > 0:
            generator = torch.Generator().manual_seed(4 * corruption.seed + number)
            cloud = Corruption(kind, level).corrupt_points(cloud, generator)
    if isinstance(shape, PointCloud):
        return ViewedShape(shape.name, f"{len(shape):,} points", cloud, {})
    mesh = {}
    if max(len(shape.faces), len(shape.vertices)) <= _MAX_DRAWN:
        mesh = {"vertices": (shape.vertices.double() - whole.centre) / whole.scale, "faces": shape.faces}
    return ViewedShape(shape.name, f"{len(shape.faces):,} triangles", cloud, mesh)
