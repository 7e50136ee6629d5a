"""The paper's "Mean LRF": a cloud's pose is the average of its local reference frames."""

from __future__ import annotations

import torch
from torch import Tensor

from qecnet.algebra import canonicalize, conjugate, multiply, weighted_mean
from qecnet.geometry import OrientedPoints, PointCloud, prepare

from ._shared import NoPoseError


def mean_lrf(source: PointCloud, target: PointCloud, seed: int = 0) -> Tensor:
    """Estimate the rotation from `source` to `target`: `pose₂ ∘ pose₁⁻¹` of their mean frames. → (4,) WXYZ, float64

    Frames are the paper's: FLARE at 512 farthest points. `seed` thins clouds of more than 10,000 points.

    Raises:
        NoPoseError: for a cloud of too few points, or without any frame, as on a plane.
    """
    first, second = (mean_pose(_prepared(cloud, seed), cloud.name) for cloud in (source, target))
    return canonicalize(multiply(second, conjugate(first)))


def mean_pose(points: OrientedPoints, name: str = "cloud") -> Tensor:
    """The mean of the frames that there are (Eq. 4), each with the same weight. → (4,) WXYZ, float64"""
    if not points.valid.any():
        raise NoPoseError(f"{name}: has no local reference frames to average; a flat or a very sparse cloud has none")
    return weighted_mean(points.frames.double(), points.valid.double())


def _prepared(cloud: PointCloud, seed: int) -> OrientedPoints:
    try:
        return prepare(cloud, generator=torch.Generator().manual_seed(seed))
    except ValueError as error:
        raise NoPoseError(str(error)) from error
