"""The residual of an alignment, and its refinement by generalised ICP (small_gicp)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from torch import Tensor

from qecnet.algebra import canonicalize, from_matrix, multiply, rotate
from qecnet.geometry import PointCloud
from qecnet.models.answer import Alignment

_GRID = 0.02  # clouds of radius 1 are thinned to this
_REACH = 0.3  # pairs of points are at most so far apart
_STEPS = 50


def residual(moved: Tensor, target: PointCloud) -> float:
    """Compute the root mean square distance from points to the nearest points of a target.

    Args:
        moved: (N, 3).
        target: the cloud to compare with.

    Returns:
        The distance, in the units of the points.
    """
    distances = cKDTree(target.points.double().numpy()).query(moved.double().numpy())[0]
    return float(np.sqrt(np.mean(np.square(distances))))


def refine_alignment(alignment: Alignment, source: PointCloud, target: PointCloud) -> Alignment:
    """Refine an alignment by registration; the result is kept if its residual is smaller."""
    there = target.normalized(torch.float64)
    moved = (alignment.moved(source.points) - there.centre) / there.scale
    step = torch.from_numpy(_gicp(moved.numpy(), there.points.numpy()))
    turn, shift = canonicalize(from_matrix(step[:3, :3])), step[:3, 3]
    rotation = canonicalize(multiply(turn, alignment.rotation))
    # The step was made in the target's own coordinates at radius 1.
    translation = rotate(turn, alignment.translation - there.centre) + shift * there.scale + there.centre
    found = replace(alignment, rotation=rotation, translation=translation)
    after = residual(found.moved(source.points), target)
    return replace(found, residual=after) if after < alignment.residual else alignment


def _gicp(source: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Register a source with a target close to it. → the motion (4, 4), float64; the identity if there is none"""
    try:
        import small_gicp
    except ImportError as error:
        raise ValueError(
            f"refining needs small_gicp, which cannot be imported ({error}); pip install 'qecnet[refine]'"
        ) from error
    found: Any = small_gicp.align(
        target,
        source,
        registration_type="GICP",
        downsampling_resolution=_GRID,
        max_correspondence_distance=_REACH,
        num_threads=1,
        max_iterations=_STEPS,
    ).T_target_source
    return np.array(found, dtype=np.float64) if np.isfinite(found).all() else np.eye(4)
