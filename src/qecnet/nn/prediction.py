"""What networks return: a `Prediction` for each cloud."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .cloud_rows import CloudRows
from .orientations import Orientations


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
