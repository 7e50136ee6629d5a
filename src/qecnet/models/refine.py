"""How well two clouds lie on each other, and the last degrees of an alignment by generalised ICP (small_gicp)."""

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
    """The root mean square of the distances from points (N, 3) to the nearest ones of the target."""
    distances = cKDTree(target.points.double().numpy()).query(moved.double().numpy())[0]
    return float(np.sqrt(np.mean(np.square(distances))))


def refined(alignment: Alignment, source: PointCloud, target: PointCloud) -> Alignment:
    """Follows the nearest points downhill from where the alignment is; kept if it lies better there."""
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
    """The motion (4, 4), float64, from about the identity; the identity where there is none."""
    try:
        import small_gicp
    except ImportError as error:
        raise ValueError(
            f"refining takes small_gicp, which cannot be imported ({error}); pip install 'qecnet[refine]'"
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
