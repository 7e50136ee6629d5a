"""The residual of an alignment, the units that may explain its scale, and its refinement by GICP (small_gicp)."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from torch import Tensor

from qecnet.algebra import canonicalize, conjugate, from_matrix, identity_like, multiply, nearest_with_up, rotate
from qecnet.geometry import PointCloud
from qecnet.models.answer import Alignment
from qecnet.schema import needing_extra

_GRID = 0.02  # clouds of radius 1 are thinned to this
_REACH = 0.3  # largest distance of a pair of points
_STEPS = 50
_UNITS = {
    1000.0: "metres against millimetres",
    100.0: "metres against centimetres",
    10.0: "centimetres against millimetres",
    25.4: "inches against millimetres",
    304.8: "feet against millimetres",
}
_NEAR = 0.05


def residual(moved: Tensor, target: PointCloud) -> float:
    """Compute the root mean square distance from points to the nearest points of a target.

    Args:
        moved: (N, 3).
        target: the cloud to compare with.

    Returns:
        The distance, in the units of the points.
    """
    return _distance(moved, target.points)


def find_units(ratio: float) -> tuple[float, str]:
    """Find the factor between two units of length that a ratio of sizes is within 5% of.

    Args:
        ratio: of two sizes.

    Returns:
        The factor and the names of both units, or the ratio itself and an empty name.
    """
    for factor, names in _UNITS.items():
        for exact in (factor, 1 / factor):
            if abs(ratio / exact - 1) < _NEAR:
                return exact, names
    return ratio, ""


def refine_alignment(
    alignment: Alignment, source: PointCloud, target: PointCloud, up: Tensor | None = None
) -> Alignment:
    """Refine an alignment by registration.

    The cloud with the smaller distance to the other is registered with the other: a scan of one side with the whole
    shape, whichever of them is the source, because points of the whole have no counterpart in the scan. The residual,
    which is always that of the source, may therefore rise where the source is the whole.

    Args:
        alignment: the motion to start from.
        source: the cloud that it moves.
        target: the cloud to align it with.
        up: (3,), unit, in the target's coordinates: the rotation is changed about this direction only; None for any
            change.

    Returns:
        The refined alignment, or the given one if registration does not reduce that distance.
    """
    there = target.normalized(torch.float64)
    unit = max(there.scale, alignment.scale * source.normalized(torch.float64).scale)
    goal = there.points * (there.scale / unit)
    moved = (alignment.moved(source.points) - there.centre) / unit
    forth, back = _distance(moved, goal), _distance(goal, moved)
    if forth <= back:
        step = torch.from_numpy(_gicp(moved.numpy(), goal.numpy()))
    else:
        step = torch.linalg.inv(torch.from_numpy(_gicp(goal.numpy(), moved.numpy())))
    turn, shift = canonicalize(from_matrix(step[:3, :3])), step[:3, 3]
    if up is not None:
        middle = moved.mean(0)
        level = _keep_up(turn, up)
        turn, shift = level, rotate(turn, middle) + shift - rotate(level, middle)
    refined = rotate(turn, moved) + shift
    after = _distance(refined, goal) if forth <= back else _distance(goal, refined)
    if after >= min(forth, back):
        return alignment
    rotation = canonicalize(multiply(turn, alignment.rotation))
    # The step was made about the target's centre, with the larger of the two at radius 1.
    translation = rotate(turn, alignment.translation - there.centre) + shift * unit + there.centre
    found = replace(alignment, rotation=rotation, translation=translation)
    return replace(found, residual=residual(found.moved(source.points), target))


def _distance(points: Tensor, others: Tensor) -> float:
    """The root mean square distance from points (N, 3) to the nearest of others (M, 3)."""
    distances = cKDTree(others.double().numpy()).query(points.double().numpy())[0]
    return float(np.sqrt(np.mean(np.square(distances))))


def _keep_up(rotation: Tensor, up: Tensor) -> Tensor:
    """The rotation about `up`, (3,), that is nearest to a rotation, (4,)."""
    upright = nearest_with_up(identity_like(rotation), up)
    return multiply(nearest_with_up(multiply(rotation, upright), up), conjugate(upright))


def _gicp(source: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Register a source with a target close to it. → the motion (4, 4), float64; the identity if there is none"""
    with needing_extra("refining needs small_gicp", "refine"):
        import small_gicp
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
