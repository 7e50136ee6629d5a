"""Generalised ICP (Segal et al. 2009) by small_gicp: a local method.

From a start within some 30° of the truth it refines to a fraction of a degree; from farther off it ends in a local
minimum. Beside methods that search all of SO(3) it shows what a good start is worth.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from qecnet.algebra import to_matrix
from qecnet.geometry import PointCloud

from ._shared import extract_rotation, import_package, normalize_points

_GRID = 0.05  # clouds of radius 1 are thinned to this
_REACH = 1.0  # pairs of points are at most the radius apart
_STEPS = 50


def gicp(source: PointCloud, target: PointCloud, seed: int = 0) -> Tensor:
    """Estimate the rotation from `source` to `target` by GICP from the identity. → (4,) WXYZ, float64

    The method is deterministic; `seed` is not used.

    Raises:
        NoPoseError: for a cloud on a line or of one point.
        ValueError: if small_gicp is not installed.
    """
    return refine(source, target, torch.tensor([1.0, 0, 0, 0], dtype=torch.float64))


def refine(source: PointCloud, target: PointCloud, start: Tensor) -> Tensor:
    """Refine a start (4,) of another method by GICP. → (4,) WXYZ, float64"""
    small_gicp = import_package("small_gicp")
    first, second = normalize_points(source), normalize_points(target)
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
    return extract_rotation(found if np.isfinite(found).all() else transform)
