"""Candidate orientations of clouds with probabilities, and which of them agree."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..algebra import conjugate, identity_like, multiply
from ..geometry import MOST_CANDIDATES
from .cloud_rows import CloudRows

SAME_DIRECTION = math.cos(math.radians(10))
"""The cosine of 10°, from which on two directions count as one."""
_SAME_HEADING = math.cos(math.radians(15))


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


def _leaders(same: Sequence[Sequence[bool]]) -> list[int]:
    """The first of each group, given which of K are the same as each of them: each joins the first leader it can."""
    leaders = list(range(len(same)))
    for leader, row in enumerate(same):
        if leaders[leader] == leader:
            for other in range(leader + 1, len(row)):
                if row[other] and leaders[other] == other:
                    leaders[other] = leader
    return leaders
