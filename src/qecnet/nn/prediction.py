"""What networks return: a `Prediction` for each cloud, its calibration, and on request how it was reached."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..algebra import conjugate, identity_like, multiply
from ..geometry import MOST_CANDIDATES

SAME_DIRECTION = math.cos(math.radians(10))
"""The cosine of 10°, from which on two directions count as one."""
_SAME_HEADING = math.cos(math.radians(15))
STEEPEST = 5.0
"""Largest slope of a temperature in partiality."""
SomeRows = TypeVar("SomeRows", bound="CloudRows")


class CloudRows:
    """A dataclass of tensors with a row for each cloud."""

    def select(self: SomeRows, index: slice | Tensor) -> SomeRows:
        """Select clouds by a slice, or by indices or a mask (clouds,)."""
        return type(self)(*(x[index] for x in vars(self).values()))

    def to(self: SomeRows, device: torch.device) -> SomeRows:
        """Move all tensors to a device."""
        return type(self)(*(x.to(device) for x in vars(self).values()))

    @classmethod
    def concatenate(cls: type[SomeRows], parts: Iterable[SomeRows]) -> SomeRows:
        """Join the clouds of all parts, in order."""
        return cls(*map(torch.cat, zip(*(vars(part).values() for part in parts), strict=True)))


@dataclass(frozen=True, eq=False)
class Ballot(CloudRows):
    """The votes of L voters for each of M classes' poses, and the result of routing them.

    Attributes:
        scores: (clouds, M), real; their softmax is the activations.
        votes: (clouds, M, L, 4), WXYZ.
        trust: (clouds, M, L), how much each vote counts; adds up to 1 over the voters.
        poses: (clouds, M, 4), WXYZ, the result of routing.
    """

    scores: Tensor
    votes: Tensor
    trust: Tensor
    poses: Tensor

    def best_pose(self) -> Tensor:
        """Select the pose of the class with the highest score.

        Returns:
            (clouds, 4), WXYZ.
        """
        return self.poses[torch.arange(self.scores.shape[0], device=self.scores.device), self.scores.argmax(-1)]


@dataclass(frozen=True, eq=False)
class Orientations(CloudRows):
    """Candidate orientations of each cloud with their probabilities, the likeliest first.

    Attributes:
        poses: (clouds, 24, 4), WXYZ, which rotate with the cloud. Padding has the identity.
        probabilities: (clouds, 24), at least 0, of padding 0; they add up to at most 1.
        any_azimuth: (clouds, 24), whether every rotation about the pose's up direction may be equally correct.
    """

    poses: Tensor
    probabilities: Tensor
    any_azimuth: Tensor

    @staticmethod
    def best(poses: Tensor, probabilities: Tensor, any_azimuth: Tensor) -> "Orientations":
        """Keep the 24 likeliest poses of one cloud.

        Poses that agree with a likelier one, as defined by `right_poses`, are left out, and their probabilities are
        added to its own: a user would see the same picture twice.

        Args:
            poses: (K, 4), WXYZ.
            probabilities: (K,).
            any_azimuth: (K,) bool.

        Returns:
            The likeliest first, for a batch of one cloud.
        """
        order = probabilities.argsort(descending=True, stable=True)
        poses, probabilities, any_azimuth = poses[order], probabilities[order], any_azimuth[order]
        leaders = _leaders(right_poses(poses.expand(len(poses), -1, -1), poses, any_azimuth[:, None]).tolist())
        probabilities = torch.zeros_like(probabilities).index_add(0, torch.tensor(leaders).to(order), probabilities)
        order = probabilities.argsort(descending=True, stable=True)[:MOST_CANDIDATES]
        padding = MOST_CANDIDATES - len(order)
        identity = identity_like(poses)
        kept = torch.cat((poses[order], identity.expand(padding, 4)))
        share, is_open = (pad(values[order], (0, padding)) for values in (probabilities, any_azimuth))
        return Orientations(kept[None], share[None], is_open[None])

    def with_temperature(self, temperature: Tensor) -> "Orientations":
        """Apply a temperature to the probabilities.

        Args:
            temperature: (clouds,), above 1 for less confidence, below 1 for more.

        Returns:
            The same poses, with probabilities that add up to 1, unless all are 0.
        """
        there = self.probabilities > 0
        scores = torch.where(there, self.probabilities, 1).log() / temperature[..., None]
        return replace(self, probabilities=torch.where(there, scores, -torch.inf).softmax(-1).nan_to_num(0.0))


def right_poses(poses: Tensor, rotations: Tensor, any_azimuth: Tensor) -> Tensor:
    """Find correct candidates: up within 10°, and within 15° about it, unless all rotations about it are candidates.

    Only the pose in the dataset counts as correct. Symmetries are not taken into account, because the candidates of
    equally correct orientations should share the probability.

    Args:
        poses: (..., K, 4) WXYZ.
        rotations: (..., 4) WXYZ, from the dataset's pose of each shape to its own.
        any_azimuth: (..., K), whether a candidate stands for all rotations about its up direction.

    Returns:
        (..., K) bool.
    """
    w, _, _, z = multiply(conjugate(rotations)[..., None, :], poses).square().unbind(-1)
    up = w + z  # (1 + cos) / 2 of the angle between the up directions
    heading = (w - z) / up.clamp_min(torch.finfo(up.dtype).tiny)
    return (2 * up - 1 > SAME_DIRECTION) & (any_azimuth | (heading > _SAME_HEADING))


@dataclass(frozen=True, eq=False)
class Whole(CloudRows):
    """Centre and size of the whole shape that each cloud may be a part of.

    Attributes:
        offset: (clouds, 3), from the cloud's centre to the shape's, in radii of the cloud; it rotates with the cloud.
        growth: (clouds,), the logarithm of the shape's radius in radii of the cloud.
    """

    offset: Tensor
    growth: Tensor


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a network predicts for each cloud.

    Attributes:
        activations: (clouds, classes), which no rotation changes.
        poses: (clouds, classes, 4), WXYZ, which rotate with the cloud.
        descriptor: (clouds, D), which no rotation changes; similar shapes have similar ones.
        ballots: the votes that training looks at, of each look of a network with features.
        orientations: candidates, from a network that has them.
        pose_loss: (clouds), in training, of a network that has a loss of its own for poses.
        side_activations: (clouds, classes) each, in training: further predictions of the class that are trained
            together with the main one.
        whole: the centre and size of the whole shape, from a network that estimates them.
    """

    activations: Tensor
    poses: Tensor
    descriptor: Tensor
    ballots: Sequence[Ballot] = ()
    orientations: Orientations | None = None
    pose_loss: Tensor | None = None
    side_activations: Sequence[Tensor] = ()
    whole: Whole | None = None

    @staticmethod
    def concatenate(predictions: Sequence["Prediction"]) -> "Prediction":
        """Concatenate predictions with orientations, and without votes, into one batch.

        Args:
            predictions: of any number of clouds each.

        Returns:
            The predictions for all clouds.
        """
        return Prediction(
            torch.cat([one.activations for one in predictions]),
            torch.cat([one.poses for one in predictions]),
            torch.cat([one.descriptor for one in predictions]),
            orientations=Orientations.concatenate(one.orientations for one in predictions if one.orientations),
            whole=Whole.concatenate(one.whole for one in predictions if one.whole),
        )

    @property
    def partiality(self) -> Tensor:
        """How partial the cloud seems to be: how far the whole shape's centre is from its own, in its radii. (clouds)

        About 0 for a whole shape, at most 1, and 0 without `whole`. No rotation changes it.
        """
        if self.whole is None:
            return torch.zeros_like(self.activations[..., 0])
        distance: Tensor = self.whole.offset.norm(dim=-1)
        return distance.clamp(max=1)

    @property
    def label(self) -> Tensor:
        """The class of the most activated capsule. (clouds)"""
        return self.activations.argmax(-1)

    @property
    def confidence(self) -> Tensor:
        """The activation of that capsule. (clouds)"""
        return self.activations.amax(-1)

    @property
    def pose(self) -> Tensor:
        """The pose of that capsule: from the class's canonical orientation to the cloud's. (clouds, 4), WXYZ"""
        return self.pose_of(self.label)

    def pose_of(self, label: Tensor) -> Tensor:
        """Look up the pose for a given class.

        Args:
            label: (clouds,), the class of each cloud.

        Returns:
            Poses (clouds, 4), WXYZ.
        """
        return self.poses.gather(-2, label[..., None, None].expand(*label.shape, 1, 4))[..., 0, :]

    def select(self, index: slice | Tensor) -> "Prediction":
        """Select clouds.

        Args:
            index: slice, or indices or mask (clouds,), of the clouds.

        Returns:
            The predictions for these clouds, in this order, without the losses of training.
        """
        ballots = tuple(ballot.select(index) for ballot in self.ballots)
        found = self.orientations and self.orientations.select(index)
        whole = self.whole and self.whole.select(index)
        chosen = (self.activations[index], self.poses[index], self.descriptor[index])
        return Prediction(*chosen, ballots, found, whole=whole)


def _leaders(same: Sequence[Sequence[bool]]) -> list[int]:
    """The first of each group, given which of K are the same as each of them: each joins the first leader it can."""
    leaders = list(range(len(same)))
    for leader, row in enumerate(same):
        if leaders[leader] == leader:
            for other in range(leader + 1, len(row)):
                if row[other] and leaders[other] == other:
                    leaders[other] = leader
    return leaders


@dataclass(frozen=True)
class Calibration:
    """Temperatures that turn activations into probabilities; the defaults leave them as they are.

    The temperature of a cloud is `temperature · exp(slope · partiality)`, see `Prediction.partiality`: at the same
    activation, a network may be right less often about a view than about a whole shape. No temperature changes the
    order of a cloud's classes or candidates.

    Attributes:
        temperature: of the classes, for a whole shape.
        orientation_temperature: of the candidate orientations, for a network that compares any.
        temperature_slope: how fast the logarithm of the classes' temperature grows with partiality.
        orientation_temperature_slope: the same for the candidates.
    """

    temperature: float = 1.0
    orientation_temperature: float = 1.0
    temperature_slope: float = 0.0
    orientation_temperature_slope: float = 0.0

    def __post_init__(self) -> None:
        for names, low, high in (
            (("temperature", "orientation_temperature"), 1e-6, 1e6),
            (("temperature_slope", "orientation_temperature_slope"), -STEEPEST, STEEPEST),
        ):
            for name in names:
                if not low <= getattr(self, name) <= high:
                    raise ValueError(f"{name} is {getattr(self, name)}; it must be a number from {low:g} to {high:g}")

    def apply(self, prediction: Prediction) -> Prediction:
        """Replace the activations and the probabilities of candidates by calibrated ones.

        Args:
            prediction: as a network returns it.

        Returns:
            The same with calibrated probabilities, each of which add up to 1.
        """
        partiality, found = prediction.partiality, prediction.orientations
        if found is not None:
            slope = self.orientation_temperature_slope
            found = found.with_temperature(self.orientation_temperature * (slope * partiality).exp())
        activations = self.class_probabilities(prediction.activations, partiality)
        return replace(prediction, activations=activations, orientations=found)

    def class_probabilities(self, activations: Tensor, partiality: Tensor) -> Tensor:
        """Turn activations into probabilities: `softmax(log(activations) / temperature)`.

        For a network with features, whose activations are those of a softmax, a temperature of 1 changes nothing. The
        activations of the paper's network are independent sigmoids; their logarithms are used as scores nonetheless.

        Args:
            activations: (..., C).
            partiality: (...), of the clouds, see `Prediction.partiality`.

        Returns:
            (..., C), which add up to 1.
        """
        temperature = self.temperature * (self.temperature_slope * partiality).exp()
        return (log_positive(activations) / temperature[..., None]).softmax(-1)


def log_positive(activations: Tensor) -> Tensor:
    """Take the logarithm of activations; 0 counts as the least positive number."""
    return activations.clamp_min(torch.finfo(torch.float32).tiny).log()


@dataclass(frozen=True, eq=False)
class PatchCapsules:
    """The patches of one cloud, in its own coordinates, and their capsules.

    Attributes:
        centres: (P, 3).
        reads: (P, K, 3), positions of the points that each patch reads.
        present: (P, K) bool, False for padding.
        poses: (P, 4), WXYZ, of each patch's most active capsule.
        activations: (P,), how active a patch's capsules are, or how much their votes count.
    """

    centres: Tensor
    reads: Tensor
    present: Tensor
    poses: Tensor
    activations: Tensor


@dataclass(frozen=True, eq=False)
class VotingRound:
    """Votes for the pose of one cloud's predicted class, through the iterations of routing.

    Attributes:
        positions: (L, 3), of the voters.
        votes: (L, 4), WXYZ.
        poses: (S, 4), WXYZ, before the first iteration and after each one.
        weights: (S, L), of the votes in each of these poses; they add up to 1.
    """

    positions: Tensor
    votes: Tensor
    poses: Tensor
    weights: Tensor
