"""What a model predicts for one shape, and for two."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from qecnet.algebra import canonicalize, conjugate, multiply, rotate, to_matrix
from qecnet.datasets import NO_SYMMETRY, SymmetryGroup, symmetry_of
from qecnet.nn import SAME_DIRECTION

_SHARED = 0.2  # of the largest probability, from which on two orientations count as equally correct
_POSE_DIGITS, _PROBABILITY_DIGITS = 5, 4  # decimals in JSON


class Candidate(NamedTuple):
    """An orientation that a shape may have.

    Attributes:
        pose: (4,) WXYZ, float64: rotates the canonical shape into this one.
        probability: 0 to 1.
        any_azimuth: whether all rotations about its up direction are equally likely.
    """

    pose: Tensor
    probability: float
    any_azimuth: bool = False

    def describe(self) -> dict[str, Any]:
        """Describe the candidate as the commands and the page give it in JSON.

        Returns:
            The attributes by name, the numbers rounded.
        """
        return {
            "pose": _rounded(self.pose),
            "probability": round(self.probability, _PROBABILITY_DIGITS),
            "any_azimuth": self.any_azimuth,
        }


class UpDirection(NamedTuple):
    """A direction that may be up.

    Attributes:
        direction: (3,), float64, in the shape's own coordinates.
        probability: 0 to 1, that it is correct within 10°.
    """

    direction: Tensor
    probability: float


@dataclass(frozen=True, eq=False)
class Answer:
    """The predicted class and orientation of a shape.

    A network that compares candidates computes the joint probability of candidate and class. `activations` is its sum
    over candidates, `poses` has for each class the likeliest candidate given this class, and the probabilities of
    `verified` are for all classes together.

    Attributes:
        name: of the file or the cloud.
        classes: C names.
        activations: (C,), calibrated probabilities of the classes (`qecnet.nn.Calibration`).
        poses: (C, 4) WXYZ, float64: rotate the canonical shape of each class into this one.
        descriptor: (D,), of length 1; invariant to rotation, and similar for similar shapes.
        centre: (3,), float64, of the shape in its own coordinates. For a scan of one side, centre and radius are
            estimates for the whole shape if the network was trained on views (`qec train --set views=…`), and otherwise
            those of the points.
        radius: the distance of the farthest point from the centre.
        milliseconds: the time it took, including reading; in a batch, with an equal share of the network's time.
        verified: the candidate orientations that the network compared, the likeliest first; empty for a network that
            does not compare any.
        error: always None, as opposed to that of a `Failure`.
    """

    name: str
    classes: tuple[str, ...]
    activations: Tensor
    poses: Tensor
    descriptor: Tensor
    centre: Tensor
    radius: float
    milliseconds: float
    verified: tuple[Candidate, ...] = ()
    error: ClassVar[None] = None

    @property
    def has_classes(self) -> bool:
        """Whether the model distinguishes classes; `upright` only predicts which way is up."""
        return len(self.classes) > 1

    @property
    def label(self) -> str:
        """The class of the most activated capsule."""
        return self.classes[int(self.activations.argmax())]

    @property
    def confidence(self) -> float:
        """The probability that the class is correct; of a model without classes, that the up direction is."""
        has_choice = self.has_classes or not self.verified
        return float(self.activations.amax()) if has_choice else self.up_confidence

    @property
    def pose(self) -> Tensor:
        """The pose of that capsule: rotates the canonical shape into this one. (4,) WXYZ, float64"""
        return self.poses[int(self.activations.argmax())]

    @property
    def symmetry(self) -> int | Literal["any"]:
        """The number of evenly spaced rotations about the upright axis that are equally correct: 1, 2, 4, or "any".

        If the network compares candidates, rotations with similar probabilities count as equally correct. Otherwise it
        is the symmetry declared for the class.
        """
        return self._symmetry_group.order or "any"

    @property
    def equivalents(self) -> Tensor:
        """The poses that are equally correct by that symmetry, `pose` first; only `pose` if it is "any". (K, 4) WXYZ"""
        group = self._symmetry_group
        turns = (NO_SYMMETRY if group.order is None else group).elements()
        return canonicalize(multiply(self.pose, torch.from_numpy(turns)))

    @property
    def _symmetry_group(self) -> SymmetryGroup:
        return _shared_symmetry(self.pose, self.verified) if self.verified else symmetry_of(self.label)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The orientations that the shape may have, the likeliest first.

        An up direction with several likely azimuths has a candidate for each. `pose` has the likeliest up direction;
        the first candidate may have another one if several candidates share the probability of the likeliest.

        If the network compares none, these are the `equivalents`, which share the confidence equally.
        """
        same = self.equivalents
        return self.verified or tuple(Candidate(pose, self.confidence / len(same)) for pose in same)

    def likely_candidates(self, share: float = 0.9) -> tuple[Candidate, ...]:
        """Select the smallest number of candidates that together have a share of the probability.

        Args:
            share: 0 to 1.

        Returns:
            The likeliest candidates, at least one; all of them if together they have less.

        Raises:
            ValueError: for a share that is not between 0 and 1.
        """
        if not 0 <= share <= 1:
            raise ValueError(f"share is {share}; it must be from 0 to 1")
        total, found = 0.0, list[Candidate]()
        for candidate in self.candidates:
            if found and total >= share:
                break
            found.append(candidate)
            total += candidate.probability
        return tuple(found)

    @property
    def up(self) -> Tensor:
        """The direction that is up, in the shape's own coordinates. (3,), float64"""
        return to_matrix(self.pose)[:, 2]

    @property
    def up_confidence(self) -> float:
        """The probability that `up` is correct within 10°: that of all candidates with that up direction.

        If the network compares none, it is the confidence of the class.
        """
        return self.ups[0].probability

    @property
    def ups(self) -> tuple[UpDirection, ...]:
        """The up directions that the shape may have: `up` first, then the others, the likeliest first.

        Candidates whose up directions are within 10° of each other count as one direction and add their probabilities.
        If the network compares none, there is only `up`.
        """
        directions, totals = [self.up], [0.0 if self.verified else self.confidence]
        for candidate in self.verified:
            up = to_matrix(candidate.pose)[:, 2]
            place = next((k for k, one in enumerate(directions) if float(one @ up) >= SAME_DIRECTION), len(directions))
            if place == len(directions):
                directions.append(up)
                totals.append(0.0)
            totals[place] = min(1.0, totals[place] + candidate.probability)
        first, *others = map(UpDirection, directions, totals)
        return (first, *sorted(others, key=lambda one: -one.probability))

    @property
    def scores(self) -> dict[str, float]:
        """The activation of each class, the highest first."""
        order = self.activations.argsort(descending=True, stable=True).tolist()
        return {self.classes[place]: float(self.activations[place]) for place in order}

    @property
    def second(self) -> str | None:
        """The class of the second most activated capsule; None if there is only one class."""
        return next(iter([*self.scores][1:]), None)

    def describe(self) -> dict[str, Any]:
        """Describe the answer as the commands and the page give it in JSON.

        Returns:
            The properties by name, the numbers rounded to decimals that do not depend on other shapes; without the name
            and the time. For a model without classes, `label` is None and `scores` is empty.
        """
        decimals = _POSE_DIGITS - math.floor(math.log10(self.radius))  # of lengths, in the shape's own units
        scores = self.scores if self.has_classes else {}
        return {
            "label": self.label if self.has_classes else None,
            "confidence": round(self.confidence, _PROBABILITY_DIGITS),
            "second": self.second,
            "pose": _rounded(self.pose),
            "up": _rounded(self.up),
            "centre": _rounded(self.centre, decimals),
            "radius": round(self.radius, decimals),
            "symmetry": self.symmetry,
            "candidates": [candidate.describe() for candidate in self.likely_candidates()],
            "scores": {label: round(score, _PROBABILITY_DIGITS) for label, score in scores.items()},
        }

    def __repr__(self) -> str:
        w, x, y, z = self.pose.tolist()
        pose = f"[{w:.3f}, {x:.3f}, {y:.3f}, {z:.3f}]"
        return f"Answer({self.name}: {self.label}, confidence {self.confidence:.2f}, pose {pose})"


@dataclass(frozen=True)
class Failure:
    """A file for which there is no prediction.

    Attributes:
        name: of the file.
        error: why, in one sentence that names the file.
    """

    name: str
    error: str


@dataclass(frozen=True, eq=False)
class Alignment:
    """The motion that aligns a source with a target: `x → scale · (rotation ∘ x) + translation`.

    Attributes:
        rotation: (4,) WXYZ, float64.
        translation: (3,), float64.
        residual: the root mean square distance from the points of the moved source to the nearest points of the target.
        source: the prediction for the source.
        target: the prediction for the target.
        scale: 1 unless a scale was estimated.
    """

    rotation: Tensor
    translation: Tensor
    residual: float
    source: Answer
    target: Answer
    scale: float = 1.0

    @property
    def matrix(self) -> Tensor:
        """The motion as a matrix that multiplies homogeneous column vectors. (4, 4), float64"""
        matrix = torch.eye(4, dtype=torch.float64)
        matrix[:3, :3], matrix[:3, 3] = self.scale * to_matrix(self.rotation), self.translation
        return matrix

    def moved(self, points: Tensor) -> Tensor:
        """Move points of the source onto the target.

        Args:
            points: (..., 3).

        Returns:
            (..., 3), float64.
        """
        return self.scale * rotate(self.rotation, points.double()) + self.translation


def _rounded(values: Tensor, decimals: int = _POSE_DIGITS) -> list[float]:
    return [round(value, decimals) for value in values.tolist()]


def _shared_symmetry(pose: Tensor, candidates: Sequence[Candidate]) -> SymmetryGroup:
    """Find the rotations about a pose's up direction that share the probability of its candidates."""
    turns = to_matrix(multiply(conjugate(pose), torch.stack([one.pose for one in candidates])))
    same_up = [(one, turn) for one, turn in zip(candidates, turns, strict=True) if float(turn[2, 2]) >= SAME_DIRECTION]
    if same_up and same_up[0][0].any_azimuth:
        return SymmetryGroup(None)
    for group in (SymmetryGroup(4), SymmetryGroup(2)):
        elements = to_matrix(torch.from_numpy(group.elements()))[:, :2, 0]
        shares = [
            sum(one.probability for one, turn in same_up if float(turn[:2, 0] @ x) >= SAME_DIRECTION) for x in elements
        ]
        if min(shares) >= _SHARED * max(shares) > 0:
            return group
    return NO_SYMMETRY
