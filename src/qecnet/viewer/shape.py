"""A shape as the page shows it: centred, of radius 1, corrupted as requested; whole, or as a camera sees it."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from qecnet.algebra import conjugate, rotate
from qecnet.datasets import ViewConfig, sample_view_from
from qecnet.evaluation import Corruption, CorruptionKind
from qecnet.geometry import Mesh, PointCloud, PrepareConfig, sample_points
from qecnet.models import sample_shape
from qecnet.viewer.request import CorruptionLevels, Place, Rotation

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
        centre: (3,) float64, and scale: the shape's own coordinates are ``points * scale + centre``.
    """

    name: str
    size: str
    cloud: PointCloud
    mesh: dict[str, Tensor]
    centre: Tensor
    scale: float


def view_shape(shape: Mesh | PointCloud, corruption: CorruptionLevels, config: PrepareConfig) -> ViewedShape:
    """Sample points as a model does, and corrupt them."""
    whole = sample_shape(shape, config, corruption.seed).normalized(torch.float64)
    cloud = _corrupt(replace(whole, centre=torch.zeros(3, dtype=torch.float64), scale=1.0), corruption)
    if isinstance(shape, PointCloud):
        return ViewedShape(shape.name, f"{len(shape):,} points", cloud, {}, whole.centre, whole.scale)
    mesh = {}
    if max(len(shape.faces), len(shape.vertices)) <= _MAX_DRAWN:
        mesh = {"vertices": (shape.vertices.double() - whole.centre) / whole.scale, "faces": shape.faces}
    return ViewedShape(shape.name, f"{len(shape.faces):,} triangles", cloud, mesh, whole.centre, whole.scale)


def sample_surface(shape: Mesh | PointCloud, viewed: ViewedShape) -> PointCloud:
    """Sample as many points as a camera needs, in the coordinates of the shape that is viewed."""
    dense = sample_points(shape, ViewConfig().surface, torch.Generator().manual_seed(0)).clean()
    return PointCloud((dense.points.double() - viewed.centre) / viewed.scale, name=viewed.name)


def see_surface(
    surface: PointCloud, camera: Place, rotation: Rotation, corruption: CorruptionLevels
) -> tuple[PointCloud, float]:
    """Return what a camera sees of a surface that was rotated about its centre, corrupted; and how much, 0 to 1.

    Raises:
        ValueError: when the camera is inside the shape or hardly sees it; one sentence.
    """
    there = rotate(conjugate(to_tensor(rotation)), to_tensor(camera))
    view = sample_view_from(surface, there, torch.Generator().manual_seed(corruption.seed))
    return _corrupt(view.cloud, corruption), view.visible


def _corrupt(cloud: PointCloud, corruption: CorruptionLevels) -> PointCloud:
    """Each kind of corruption has a generator of its own."""
    kinds: tuple[CorruptionKind, ...] = ("occlusion", "points", "noise", "outliers")
    for number, kind in enumerate(kinds):
        if (level := getattr(corruption, kind)) > 0:
            generator = torch.Generator().manual_seed(4 * corruption.seed + number)
            cloud = Corruption(kind, level).corrupt_points(cloud, generator)
    return cloud


def to_tensor(values: tuple[float, ...]) -> Tensor:
    """The numbers of a request in float64."""
    return torch.tensor(values, dtype=torch.float64)
