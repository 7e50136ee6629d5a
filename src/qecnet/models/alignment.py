"""Alignment of two shapes by their predictions, in any of their likely orientations."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from qecnet.algebra import angular_distance, canonicalize, conjugate, multiply, rotate
from qecnet.geometry import PointCloud
from qecnet.models.answer import Alignment, Answer
from qecnet.models.refine import find_units, refine_alignment, residual
from qecnet.models.similarity import refine_similarity

_LARGEST = 1e150  # size of a shape, or ratio of sizes, whose square is finite
_DIFFERENT = math.radians(15)  # two rotations at least so far apart are two starts of a refinement
_MOST_ROTATIONS = 6


def align_answers(
    first: Answer,
    second: Answer,
    source: PointCloud,
    target: PointCloud,
    up: Tensor | None,
    *,
    refine: bool,
    scale: bool,
) -> Alignment:
    """Align two shapes by their predictions.

    Args:
        first: the prediction for the source.
        second: the prediction for the target.
        source: points of the source.
        target: points of the target.
        up: (3,), the known up direction of the target, if that of the source is known, too.
        refine, scale: as of `Model.align`.

    Returns:
        The motion from source to target.

    Raises:
        ValueError: if a radius, or the ratio of both, is above 1e150 or below 1e-150.
    """
    sizes = first.radius, second.radius
    ratio = second.radius / first.radius if min(sizes) > 1 / _LARGEST else 0.0
    if not (max(sizes) < _LARGEST and 1 / _LARGEST < ratio < _LARGEST):
        raise ValueError(f"{source.name}: is too large or too small to be aligned with {target.name}")
    factor, units = find_units(ratio) if scale else (1.0, "")
    found = _align_centres(first, second, relative_pose(first, second), factor)
    found = replace(found, residual=residual(found.moved(source.points), target))
    if not refine:
        return found
    if not scale or units:
        return refine_alignment(found, source, target, up)
    others = [_align_centres(first, second, one, factor) for one in likely_rotations(first, second)[1:]]
    return refine_similarity([found, *others], source, target, up)


def relative_pose(source: Answer, target: Answer) -> Tensor:
    """Compute the rotation from source to target, `pose₂ ∘ pose₁⁻¹`, WXYZ, with w ≥ 0. → (4,)

    Both poses are those of the class with the largest product of activations, because the canonical orientations of
    two classes are unrelated.
    """
    label = int((source.activations * target.activations).argmax())
    return canonicalize(multiply(target.poses[label], conjugate(source.poses[label])))


def likely_rotations(source: Answer, target: Answer) -> list[Tensor]:
    """List the rotations from source to target that follow from the four likeliest candidates of each.

    Args:
        source: the prediction for the shape to rotate.
        target: the prediction for the shape to align it with.

    Returns:
        Up to six, each (4,): `relative_pose`, then the others by the product of their probabilities, all at least 15°
        apart.
    """
    first, second = source.candidates[:4], target.candidates[:4]
    shares = torch.tensor([[one.probability * other.probability for other in second] for one in first])
    before, after = (torch.stack([one.pose for one in some]) for some in (first, second))
    rotations = canonicalize(multiply(after, conjugate(before[:, None]))).flatten(0, 1)
    ranked = rotations[shares.flatten().argsort(descending=True, stable=True)]
    ranked = torch.cat((relative_pose(source, target)[None], ranked))
    is_same = (angular_distance(ranked[:, None], ranked) < _DIFFERENT).tolist()
    found: list[int] = []
    for number, same in enumerate(is_same):
        if len(found) < _MOST_ROTATIONS and not any(same[one] for one in found):
            found.append(number)
    return [*ranked[found]]


def _align_centres(source: Answer, target: Answer, rotation: Tensor, scale: float) -> Alignment:
    """The motion with this rotation and scale that moves the centre of the source to that of the target."""
    translation = target.centre - scale * rotate(rotation, source.centre)
    return Alignment(rotation, translation, 0.0, source, target, scale)
