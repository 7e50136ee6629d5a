"""What a model says of one shape, and of two."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from qecnet.algebra import canonicalize, conjugate, multiply, rotate, to_matrix
from qecnet.datasets import NO_SYMMETRY, symmetry_of

_SAME_UP = math.cos(math.radians(10))


class Candidate(NamedTuple):
    """An orientation that a shape may have.

    Attributes:
        pose: (4,), WXYZ, float64: rotates the canonical shape into this one.
        probability: 0 to 1.
    """

    pose: Tensor
    probability: float


@dataclass(frozen=True, eq=False)
class Answer:
    """What a shape is, and which way it is turned.

    Attributes:
        name: of the file or the cloud.
        classes: C names.
        activations: (C,), how much each class's capsule is active: probabilities, calibrated (see
            `qecnet.nn.calibrated`).
        poses: (C, 4), WXYZ, float64: turn each class's canonical shape into this one.
        descriptor: (D,), of length 1; no rotation changes it, and like shapes have like ones.
        centre: (3,), float64, of the shape in its own coordinates, and radius: the distance of its farthest point from
            there. Of a scan of one side they are estimates for the whole shape, if the network was trained on views
            (`qec train --set views=…`), and otherwise those of the points.
        milliseconds: that it took, reading included; of a batch, a share of the network's time.
        verified: the candidate orientations that the network compared, the likeliest first; empty for a network that
            does not compare any.
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
    def label(self) -> str:
        """The class of the most activated capsule."""
        return self.classes[int(self.activations.argmax())]

    @property
    def confidence(self) -> float:
        """The activation of that capsule: how often such an answer is right."""
        return float(self.activations.amax())

    @property
    def pose(self) -> Tensor:
        """The pose of that capsule: turns the canonical shape into this one. (4,), WXYZ, float64"""
        return self.poses[int(self.activations.argmax())]

    @property
    def symmetry(self) -> int | Literal["any"]:
        """How many turns about the upright axis leave a shape of that class looking the same: 1, 2, 4, or any."""
        return symmetry_of(self.label).order or "any"

    @property
    def equivalents(self) -> Tensor:
        """The poses that look the same by that symmetry, `pose` first; where any turn does, it alone. (K, 4), WXYZ"""
        group = symmetry_of(self.label)
        turns = (NO_SYMMETRY if group.order is None else group).elements()
        return canonicalize(multiply(self.pose, torch.from_numpy(turns)))

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The orientations that the shape may have, the likeliest first.

        An up direction with several likely azimuths has a candidate for each. `pose` has the likeliest up direction;
        the first candidate may have another one, if several share the probability of that.

        Where the network compares none, those are its `equivalents`, which share the confidence.
        """
        same = self.equivalents
        return self.verified or tuple(Candidate(pose, self.confidence / len(same)) for pose in same)

    def likely_candidates(self, share: float = 0.9) -> tuple[Candidate, ...]:
        """The fewest candidates that have `share` of the probability together, or all if they have less."""
        total, found = 0.0, []
        for candidate in self.candidates:
            if total >= share:
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
        """The probability that `up` is right within 10°: that of all candidates with that up direction.

        Where the network compares none, the confidence of the class stands in for it.
        """
        if not self.verified:
            return self.confidence
        up = self.up
        return min(1.0, sum(p for pose, p in self.verified if float(to_matrix(pose)[:, 2] @ up) >= _SAME_UP))

    @property
    def scores(self) -> dict[str, float]:
        """The activation of each class, the highest first."""
        order = self.activations.argsort(descending=True, stable=True).tolist()
        return {self.classes[place]: float(self.activations[place]) for place in order}

    @property
    def second(self) -> str | None:
        """The class of the second most activated capsule; None where there is but one class."""
        return next(iter([*self.scores][1:]), None)

    def __repr__(self) -> str:
        w, x, y, z = self.pose.tolist()
        pose = f"[{w:.3f}, {x:.3f}, {y:.3f}, {z:.3f}]"
        return f"Answer({self.name}: {self.label}, confidence {self.confidence:.2f}, pose {pose})"


@dataclass(frozen=True)
class Failure:
    """A file of which nothing can be said, and why, in one sentence that names it."""

    name: str
    error: str


@dataclass(frozen=True, eq=False)
class Alignment:
    """The motion that brings a source onto a target: `x → scale · (rotation ∘ x) + translation`.

    Attributes:
        rotation: (4,), WXYZ, float64, and translation: (3,), float64.
        residual: the root mean square of the distances from the moved source's points to the nearest of the target.
        source, target: what each was taken for.
    """

    rotation: Tensor
    translation: Tensor
    residual: float
    source: Answer
    target: Answer
    scale: float = 1.0

    @property
    def matrix(self) -> Tensor:
        """The motion of homogeneous columns. (4, 4), float64"""
        matrix = torch.eye(4, dtype=torch.float64)
        matrix[:3, :3], matrix[:3, 3] = self.scale * to_matrix(self.rotation), self.translation
        return matrix

    def moved(self, points: Tensor) -> Tensor:
        """Points of the source (..., 3) where they come to lie on the target; float64."""
        return self.scale * rotate(self.rotation, points.double()) + self.translation


def relative_pose(source: Answer, target: Answer) -> Tensor:
    """The siamese mode: `pose₂ ∘ pose₁⁻¹`, WXYZ, with w ≥ 0. → (4,)

    Both poses are of the class that both together speak for most, as canonical orientations of two classes need not
    have anything to do with each other.
    """
    label = int((source.activations * target.activations).argmax())
    return canonicalize(multiply(target.poses[label], conjugate(source.poses[label])))
