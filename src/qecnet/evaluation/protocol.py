"""How a view of a test shape is made, under the two protocols of every result here.

- **strict**: each view is resampled on its own and turned, and its frames are estimated from the turned points. It is
  what users live with.
- **paper**: frames are estimated once on the upright shape and turned together with the points, as the authors'
  release does it. Nobody's frames come that way in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import torch
from torch import Tensor

from qecnet.algebra import multiply, random_quaternion, rotate
from qecnet.datasets import derive_seed
from qecnet.datasets.drawn import drawn
from qecnet.evaluation.spoiling import Spoiling, fewer_patches
from qecnet.geometry import Mesh, PointCloud, PrepareConfig, Prepared, prepare

Protocol = Literal["paper", "strict"]

_POINTS, _ROTATION, _SPOILING = range(3)
"""What is drawn: one stream of random numbers each."""


@dataclass(frozen=True, order=True)
class View:
    """One look at a shape: which resampling of its points, and which rotation; turn 0 leaves it upright (NR)."""

    resampling: int
    turn: int


@dataclass(frozen=True)
class Task:
    """What is done with each shape; all that is drawn follows from the seed, the shape's number and the view's.

    Attributes:
        config: of the frames and patches, as the network was trained with.
        keep: the share of a stored cloud that a resampling keeps; meshes are sampled anew.
    """

    protocol: Protocol
    config: PrepareConfig
    keep: float = 0.8
    seed: int = 0
    spoiling: Spoiling | None = None

    def rotation(self, shape: int, view: View) -> Tensor:
        """What the view turns the upright shape by. (4,), WXYZ, float64"""
        if view.turn == 0:
            return torch.tensor([1.0, 0, 0, 0], dtype=torch.float64)
        seed = derive_seed(self.seed, _ROTATION, shape, view.resampling, view.turn)
        return random_quaternion((), seed, dtype=torch.float64)

    def prepared(self, stored: Mesh | PointCloud, shape: int, views: Sequence[View]) -> list[Prepared]:
        """The views, ready for the network; `shape` is the number of the stored shape in its split.

        Under "paper" the frames of a resampling are estimated once, for all its rotations.
        """
        rotations = [self.rotation(shape, view) for view in views]
        if self.protocol == "strict":
            seen = zip(views, rotations, strict=True)
            return [self._estimated(stored, shape, view.resampling, q) for view, q in seen]
        upright = {n: self._estimated(stored, shape, n) for n in {view.resampling for view in views}}
        return [_turned(upright[view.resampling], q) for view, q in zip(views, rotations, strict=True)]

    def _estimated(
        self, stored: Mesh | PointCloud, shape: int, resampling: int, turned_by: Tensor | None = None
    ) -> Prepared:
        """A resampling, spoiled and turned, with the frames that are estimated from what is left."""
        generator = torch.Generator().manual_seed(derive_seed(self.seed, _POINTS, shape, resampling))
        cloud = replace(drawn(stored, self.config, self.keep, generator), normals=None)  # a file's normals are not used
        spoil = torch.Generator().manual_seed(derive_seed(self.seed, _SPOILING, shape, resampling))
        if self.spoiling is not None:
            cloud = self.spoiling.of_cloud(cloud, spoil)
        if turned_by is not None:
            cloud = _turned_cloud(cloud, turned_by)
        prepared = prepare(cloud, self.config, generator)
        if self.spoiling is not None and self.spoiling.kind == "patches":
            prepared = fewer_patches(prepared, self.spoiling.level, spoil)
        return prepared


def _turned_cloud(cloud: PointCloud, q: Tensor) -> PointCloud:
    """About the origin; in float64, rounded once."""
    return replace(cloud, points=rotate(q, cloud.points.double()).to(cloud.points.dtype))


def _turned(prepared: Prepared, q: Tensor) -> Prepared:
    """The frames with the points."""
    points = rotate(q, prepared.points.double()).float()
    poses = multiply(q.expand(len(prepared.poses), 4), prepared.poses.double()).float()
    centre = rotate(q, prepared.centre)
    kept = {field.name: getattr(prepared, field.name) for field in fields(Prepared)}
    return Prepared(**kept | {"points": points, "poses": poses, "centre": centre})
