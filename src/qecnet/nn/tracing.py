"""How a prediction was reached: patches with their capsules, and the votes in each round of routing."""

from dataclasses import dataclass

from torch import Tensor


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
