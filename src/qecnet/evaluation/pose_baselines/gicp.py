"""Generalised ICP (Segal et al. 2009) by small_gicp: a local method, which follows the nearest points downhill.

From a start within some 30° of the truth it refines to a fraction of a degree; from farther off it ends in whatever
hollow is near. So beside methods that search all of SO(3) it shows what a start is worth.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from qecnet.algebra import to_matrix
from qecnet.evaluation.pose_baselines._shared import package, placed, quaternion_of
from qecnet.geometry import PointCloud

_GRID = 0.05  # clouds of radius 1 are thinned to this
_REACH = 1.0  # pairs of points are at most the radius apart
_STEPS = 50


def gicp(source: PointCloud, target: PointCloud, seed: int = 0) -> Tensor:
    """What turns `source` into `target`, sought from the identity. → (4,) WXYZ, float64

    Nothing is drawn, so `seed` changes nothing.

    Raises:
        NoPoseError: for a cloud on a line or of one point.
        ValueError: where small_gicp is not installed.
    """
    return refine(source, target, torch.tensor([1.0, 0, 0, 0], dtype=torch.float64))


def refine(source: PointCloud, target: PointCloud, start: Tensor) -> Tensor:
    """GICP from a start (4,) that another method gave. → (4,) WXYZ, float64"""
    small_gicp = package("small_gicp")
    first, second = placed(source), placed(target)
    transform = np.eye(4)
    transform[:3, :3] = to_matrix(start.double()).numpy()
    found = small_gicp.align(
        second,
        first,
        init_T_target_source=transform,
        registration_type="GICP",
        downsampling_resolution=_GRID,
        max_correspondence_distance=_REACH,
        num_threads=1,
        max_iterations=_STEPS,
    ).T_target_source
    return quaternion_of(found if np.isfinite(found).all() else transform)
