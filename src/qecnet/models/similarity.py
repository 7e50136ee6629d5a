"""Refinement of an alignment together with its scale: ICP of a partial view with a whole shape.

Only points of the view look for partners, because the hidden side of the whole has none. Each step is a Gauss-Newton
step of point-to-plane ICP (Chen and Medioni 1992) with a scale. Distances along the surface have a small weight, so
that planes and straight edges leave nothing undetermined. A prior keeps the scale near its start: shrunk to a point, a
view would fit anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation
from torch import Tensor

from qecnet.algebra import canonicalize, conjugate, from_matrix, rotate, to_matrix
from qecnet.geometry import PointCloud, fit_normals
from qecnet.models.answer import Alignment
from qecnet.models.refine import residual

Values = NDArray[np.float64]

_NEIGHBOURS = 12  # of a plane fit
_ALONG = 0.1  # weight of squared distances along the surface
_MEDIANS = 2.5  # width of the kernel, in medians of the distances
_WIDTH, _LEAST_WIDTH = 0.3, 0.01  # its least width at first and at last, in radii of the whole
_NARROWING = 0.8  # factor of this from step to step
_PRIOR = 0.001  # variance of distances, in radii of the whole, over that of the start's log-scale
_SCREENED, _SCREENING_STEPS = 200, 12  # points and steps that choose among the starts
_FINALISTS = 3  # of the starts
_READ, _STEPS = 800, 25  # points and steps that refine these
_CONVERGED = 1e-5
_LARGEST_CHANGE = 1.5  # factor of the start's scale
_KEPT = 0.9  # share of the nearest distances whose mean compares results


class _Motion(NamedTuple):
    """`x → scale · rotation @ x + shift`, with a (3, 3) rotation."""

    scale: float
    rotation: Values
    shift: Values

    def move(self, points: Values) -> Values:
        return self.scale * points @ self.rotation.T + self.shift

    def after(self, first: _Motion) -> _Motion:
        return _Motion(self.scale * first.scale, self.rotation @ first.rotation, self.move(first.shift))

    def inverse(self) -> _Motion:
        back = self.rotation.T / self.scale
        return _Motion(1 / self.scale, self.rotation.T, -back @ self.shift)


class _Whole(NamedTuple):
    """The points of a whole shape, their normals (0 where there is none) and a search tree."""

    points: Values
    normals: Values
    tree: Any


def refine_similarity(
    starts: Sequence[Alignment], source: PointCloud, target: PointCloud, up: Tensor | None = None
) -> Alignment:
    """Refine the rotation, the translation and the scale of an alignment.

    Of source and target, the one with the smaller distance to the other, after the best start, is the view.

    Args:
        starts: alignments to start from, all with the same scale, the likeliest first.
        source: the cloud that they move.
        target: the cloud to align it with.
        up: (3,), unit, in the target's coordinates: the rotation is changed about this direction only; None for any
            change. All starts must take the same direction there.

    Returns:
        The refined start that brings the view closest to the whole, or the first start if none is closer. Results
        whose scale is more than 1.5 times larger or smaller than the start's do not count.
    """
    before, after = source.normalized(torch.float64), target.normalized(torch.float64)
    into, out_of = _frame(before), _frame(after)
    guesses = [out_of.inverse().after(_motion(start)).after(into) for start in starts]
    one, other = before.points.numpy(), after.points.numpy()
    if _is_view(one, other, guesses):
        best = _register(guesses, one, other, None if up is None else up.numpy())
    else:
        source_up = None if up is None else rotate(conjugate(starts[0].rotation), up).numpy()
        best = _register([guess.inverse() for guess in guesses], other, one, source_up)
        best = None if best is None else best.inverse()
    if best is None:
        return starts[0]
    found = out_of.after(best).after(into.inverse())
    rotation = canonicalize(from_matrix(torch.from_numpy(found.rotation)))
    refined = replace(starts[0], rotation=rotation, translation=torch.from_numpy(found.shift), scale=float(found.scale))
    return replace(refined, residual=residual(refined.moved(source.points), target))


def _is_view(points: Values, others: Values, guesses: Sequence[_Motion]) -> bool:
    """Whether points (N, 3), moved by the best guess, are nearer to the others (M, 3) than the others are to them."""
    tree, other_tree = cKDTree(points), cKDTree(others)
    some, some_others = _choose(points, _SCREENED), _choose(others, _SCREENED)
    forth = [other_tree.query(guess.move(some))[0].mean() for guess in guesses]
    back = [guess.scale * tree.query(guess.inverse().move(some_others))[0].mean() for guess in guesses]
    return bool(min(forth) <= min(back))


def _choose(points: Values, most: int) -> Values:
    """Choose at most that many of the points, the same ones in any pose."""
    return points[np.random.default_rng(0).permutation(len(points))[:most]]


def _frame(cloud: PointCloud) -> _Motion:
    """Get the motion from the coordinates of a normalised cloud to the user's."""
    return _Motion(cloud.scale, np.eye(3), cloud.centre.numpy())


def _motion(alignment: Alignment) -> _Motion:
    return _Motion(alignment.scale, to_matrix(alignment.rotation).numpy(), alignment.translation.numpy())


def _register(starts: Sequence[_Motion], view: Values, shape: Values, up: Values | None) -> _Motion | None:
    """Register a view (N, 3) with a whole shape (M, 3) from each start. → the best; None if no start is improved"""
    points = torch.from_numpy(shape)
    normals, _ = fit_normals(points, neighbours=min(_NEIGHBOURS, len(points)))
    whole = _Whole(shape, normals.numpy(), cKDTree(shape))
    view = _choose(view, _READ)
    found, scale = starts, starts[0].scale
    if len(found) > _FINALISTS:
        rough = [_iterate(start, scale, view[:_SCREENED], whole, up, _SCREENING_STEPS) for start in found]
        found = sorted(rough, key=lambda one: _misfit(one, view, whole))[:_FINALISTS]
    refined = [_iterate(one, scale, view, whole, up, _STEPS) for one in found]
    # A view of another size may fit the whole where it does not belong.
    refined = [one for one in refined if max(one.scale / scale, scale / one.scale) < _LARGEST_CHANGE]
    best = min(refined, key=lambda one: _misfit(one, view, whole), default=starts[0])
    return best if _misfit(best, view, whole) < _misfit(starts[0], view, whole) else None


def _misfit(motion: _Motion, view: Values, whole: _Whole) -> float:
    """The mean of the smaller distances to the whole, in units of the view: a smaller scale is no better fit."""
    distances = np.sort(whole.tree.query(motion.move(view))[0])
    return float(distances[: max(1, int(_KEPT * len(distances)))].mean() / motion.scale)


def _iterate(start: _Motion, scale: float, view: Values, whole: _Whole, up: Values | None, steps: int) -> _Motion:
    """ICP: from each point to the nearest one, and a step that brings them together; `scale` is that of the prior."""
    found = start
    for number in range(steps):
        moved = found.move(view)
        distances, nearest = whole.tree.query(moved)
        width = max(_MEDIANS * float(np.median(distances)), _WIDTH * _NARROWING**number, _LEAST_WIDTH)
        weights = (1 + (distances / width) ** 2) ** -2.0  # Geman and McClure
        gaps, normals = whole.points[nearest] - moved, whole.normals[nearest]
        step, size = _step(moved, gaps, normals, weights, float(np.log(found.scale / scale)), up)
        found = step.after(found)
        if size < _CONVERGED:
            break
    return found


def _step(
    points: Values, gaps: Values, normals: Values, weights: Values, growth: float, up: Values | None
) -> tuple[_Motion, float]:
    """The least-squares step that closes gaps (N, 3), and its size.

    The unknowns are angles about the three axes (or about `up`), a translation and a log-scale, all about the mean
    point; `growth` is the log-scale so far.
    """
    centre = points.mean(0)
    arms = points - centre
    axes = np.eye(3) if up is None else up[None]
    moves = np.broadcast_to(np.eye(3)[:, None], (3, len(points), 3))
    changes = np.concatenate([np.cross(axes[:, None], arms), moves, arms[None]]).transpose(1, 2, 0)  # (N, 3, unknowns)
    outward = np.einsum("ni,nij->nj", normals, changes)
    heights = np.einsum("ni,ni->n", normals, gaps)
    matrix, values = changes.reshape(len(points) * 3, -1), gaps.ravel()
    of_each = np.repeat(weights, 3)
    normal = (1 - _ALONG) * (outward.T * weights) @ outward + _ALONG * (matrix.T * of_each) @ matrix
    right = (1 - _ALONG) * outward.T @ (weights * heights) + _ALONG * matrix.T @ (of_each * values)
    normal[-1, -1] += weights.sum() * _PRIOR
    right[-1] -= weights.sum() * _PRIOR * growth
    normal += 1e-9 * np.trace(normal) * np.eye(len(normal))
    found = np.linalg.solve(normal, right)
    rotation = Rotation.from_rotvec(found[:-4] @ axes).as_matrix()
    scale = float(np.exp(found[-1]))
    shift = centre + found[-4:-1] - scale * rotation @ centre
    return _Motion(scale, rotation, shift), float(np.abs(found).max())
