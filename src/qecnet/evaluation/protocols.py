"""How a test view, a resampled and perhaps rotated test shape, is made under the two protocols of every result.

- **strict**: each view is resampled on its own and rotated, and its frames are estimated from the rotated points, as
  in use.
- **paper**: frames are estimated once on the upright shape and rotated together with the points, as in the authors'
  release.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from qecnet.algebra import random_quaternion
from qecnet.datasets import derive_seed
from qecnet.evaluation.corruption import Corruption
from qecnet.evaluation.results import ProtocolName
from qecnet.geometry import (
    Mesh,
    OrientedPoints,
    PointCloud,
    PrepareConfig,
    drop_implausible_viewpoint,
    prepare,
    sample_points,
)

_POINTS, _ROTATION, _CORRUPTION = range(3)
"""One stream of random numbers for each."""


@dataclass(frozen=True, order=True)
class TestView:
    """A test view of a shape: which resampling of its points, and which rotation; rotation 0 leaves it upright (NR)."""

    __test__ = False  # not for pytest to collect

    resampling: int
    turn: int


@dataclass(frozen=True)
class ViewSampler:
    """Makes test views of shapes; all randomness follows from the seed, the shape's number and the view's.

    Attributes:
        protocol: "strict" or "paper".
        config: of the frames, as the network was trained with.
        keep: the share of a stored cloud's points that a resampling keeps; meshes are resampled.
        seed: of everything random.
        corruption: what is done to each view.
    """

    protocol: ProtocolName
    config: PrepareConfig
    keep: float = 0.8
    seed: int = 0
    corruption: Corruption | None = None

    def rotation(self, shape: int, view: TestView) -> Tensor:
        """Draw what rotates the upright shape into the view. → (4,) WXYZ, float64"""
        if view.turn == 0:
            return torch.tensor([1.0, 0, 0, 0], dtype=torch.float64)
        seed = derive_seed(self.seed, _ROTATION, shape, view.resampling, view.turn)
        return random_quaternion((), seed, dtype=torch.float64)

    def prepare(
        self, stored: Mesh | PointCloud, shape: int, views: Sequence[TestView]
    ) -> tuple[list[OrientedPoints], list[int]]:
        """Prepare views of a shape for the network.

        Under "paper" the frames of a resampling are estimated once, for all its rotations.

        Args:
            stored: the shape as the dataset has it.
            shape: its number in its split.
            views: which views to make.

        Returns:
            The views, and the number of points that the frames of each were estimated from.
        """
        rotations = [self.rotation(shape, view) for view in views]
        if self.protocol == "strict":
            made = [self._estimate(stored, shape, view.resampling, q) for view, q in zip(views, rotations, strict=True)]
        else:
            upright = {n: self._estimate(stored, shape, n) for n in {view.resampling for view in views}}
            made = [
                (upright[view.resampling][0].rotated(q), upright[view.resampling][1])
                for view, q in zip(views, rotations, strict=True)
            ]
        return [view for view, _ in made], [count for _, count in made]

    def _estimate(
        self, stored: Mesh | PointCloud, shape: int, resampling: int, q: Tensor | None = None
    ) -> tuple[OrientedPoints, int]:
        """Resample, corrupt and rotate a shape, and estimate frames from the result; also count its points."""
        generator = torch.Generator().manual_seed(derive_seed(self.seed, _POINTS, shape, resampling))
        cloud = drop_implausible_viewpoint(sample_points(stored, self.config.points, generator, self.keep))
        cloud = replace(cloud, normals=None)  # a file's normals are not used: not every file has them
        noise = torch.Generator().manual_seed(derive_seed(self.seed, _CORRUPTION, shape, resampling))
        if self.corruption is not None:
            cloud = self.corruption.corrupt_points(cloud, noise)
        if q is not None:
            cloud = cloud.rotated(q)
        prepared = prepare(cloud, self.config, generator)
        if self.corruption is not None:
            prepared = self.corruption.corrupt_frames(prepared, noise)
        return prepared, len(cloud)
