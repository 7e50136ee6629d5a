"""A shape as the page shows it: its middle at the origin, radius 1, drawn as points, and spoiled as it is told."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from qecnet.algebra import rotate
from qecnet.evaluation.spoiling import Kind, Spoiling
from qecnet.geometry import Mesh, PointCloud, PrepareConfig
from qecnet.models.inputs import as_cloud
from qecnet.viewer.wish import Spoil

_MOST_FACES = 200_000
"""A mesh of more is shown as points."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A shape at radius 1.

    Attributes:
        name: of the file, or the class that it was made as.
        cloud: what the network is asked about, spoiled, in the pose that it came in.
        vertices, faces: of the mesh, (V, 3) and (F, 3); None where there is none to show.
        about: what it is, for people.
    """

    name: str
    cloud: PointCloud
    vertices: Tensor | None
    faces: Tensor | None
    about: str

    def turned(self, turn: tuple[float, float, float, float]) -> PointCloud:
        """Its points, turned about the middle."""
        points = rotate(torch.tensor(turn, dtype=torch.float64), self.cloud.points)
        return replace(self.cloud, points=points)


def subject_of(shape: Mesh | PointCloud, spoil: Spoil, config: PrepareConfig) -> Subject:
    """Draws points as a model would, and spoils them: each damage by a chance of its own, so that they do not mix."""
    whole = as_cloud(shape, config, spoil.seed).normalized(torch.float64)
    cloud = replace(whole, centre=torch.zeros(3, dtype=torch.float64), scale=1.0)
    kinds: tuple[tuple[Kind, float], ...] = (
        ("occlusion", spoil.occlusion),
        ("points", spoil.points),
        ("noise", spoil.noise),
        ("outliers", spoil.outliers),
    )
    for place, (kind, level) in enumerate(kinds):
        if level > 0:
            cloud = Spoiling(kind, level).of_cloud(cloud, torch.Generator().manual_seed(4 * spoil.seed + place))
    vertices = faces = None
    about = f"{len(shape):,} points" if isinstance(shape, PointCloud) else f"{len(shape.faces):,} triangles"
    if isinstance(shape, Mesh) and len(shape.faces) <= _MOST_FACES:
        vertices, faces = (shape.vertices.double() - whole.centre) / whole.scale, shape.faces
    return Subject(shape.name, cloud, vertices, faces, about)
