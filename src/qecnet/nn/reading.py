"""Features of capsules, from the neighbours of each, in the coordinates of its own frame.

Neighbours rotate with the frame that they are seen from, so that no rotation of the cloud changes a feature.
"""

import torch
from torch import Tensor, nn

from ..algebra import grad_where, is_exporting, to_matrix
from .capsules import Capsules
from .fused import is_fused, nearest_fused

NEIGHBOUR_VALUES = 14
"""How many numbers a capsule sees of another one's place and pose."""


def view_neighbours(centres: Capsules, others: Capsules, neighbours: Tensor, reach: float) -> Tensor:
    """Describe the neighbours of each centre in its own frame; each point has one pose.

    neighbours (clouds, M, K): indices of `others`; distances are in units of `reach`. → (clouds, M, K, 14): the
    neighbour's position, its distance, its frame's axes, and the cosine between its z axis and the direction to it.
    """
    frames, theirs = to_matrix(centres.poses[..., 0, :]), to_matrix(others.poses[..., 0, :])
    offsets = gather_neighbours(others.positions, neighbours) - centres.positions[..., None, :]
    positions = offsets @ frames
    distances = positions.norm(dim=-1, keepdim=True)
    axes = frames.mT[..., None, :, :] @ gather_neighbours(theirs.flatten(-2), neighbours).view(*neighbours.shape, 3, 3)
    cosines = (axes[..., 2] * positions).sum(-1, keepdim=True) / distances.clamp_min(1e-9)
    return torch.cat((positions / reach, distances / reach, axes.flatten(-2), cosines), -1)


def gather_neighbours(x: Tensor, neighbours: Tensor) -> Tensor:
    """(clouds, N, F), (clouds, M, K) → (clouds, M, K, F)."""
    first = x.shape[1] * torch.arange(x.shape[0], device=x.device)
    rows = x.flatten(0, 1).index_select(0, (neighbours + first[:, None, None]).flatten())
    return rows.view(*neighbours.shape, x.shape[-1])


def distances(centres: Tensor, points: Tensor) -> Tensor:
    """Distances, or values in the same order: (clouds, M, 3), (clouds, N, 3) → (clouds, M, N)."""
    if is_exporting():
        return (centres[:, :, None] - points[:, None]).square().sum(-1)
    # A matrix product would be faster, but loses the differences between close points.
    return torch.cdist(centres, points, compute_mode="donot_use_mm_for_euclid_dist")


def nearest_points(centres: Tensor, points: Tensor, count: int) -> Tensor:
    """Indices of the `count` nearest points of each centre: (clouds, M, 3), (clouds, N, 3) → (clouds, M, K)."""
    if is_fused(centres, points) and count <= points.shape[1]:
        return nearest_fused(centres, points, count)
    with grad_where(False):
        return distances(centres, points).topk(count, largest=False, sorted=False).indices


def max_over_neighbours(x: Tensor) -> Tensor:
    """The maximum over K, (clouds, M, K, F) → (clouds, M, F); `amax` takes four times as long, for its derivative."""
    if not torch.is_grad_enabled():
        return x.amax(-2)
    count = x.shape[-2]
    with torch.no_grad():  # channels are last in memory, the fastest layout; indices are into all M · K positions
        _, place = nn.functional.max_pool2d(x.permute(0, 3, 1, 2), (1, count), return_indices=True)
    return x.gather(-2, place.permute(0, 2, 3, 1) % count)[..., 0, :]


class Reading(nn.Module):
    """From the capsules around each centre to a feature at the centre: two layers a neighbour, and a maximum.

    The normalisation follows the maximum, where it has only a hundredth of the values to process.
    """

    def __init__(self, given: int, hidden: int, features: int, reach: float) -> None:
        super().__init__()
        self.reach = reach
        self.seen = nn.Linear(NEIGHBOUR_VALUES, hidden)
        self.carried = nn.Linear(given, hidden, bias=False)
        self.mixed = nn.Linear(hidden, features, bias=False)
        self.normalised = nn.BatchNorm1d(features)

    def forward(self, centres: Capsules, others: Capsules, neighbours: Tensor) -> Capsules:
        """The centres, (clouds, M), each with a feature (F), of the `others` (clouds, N) that `neighbours` names."""
        if others.features is None:
            raise ValueError("these capsules carry no features to read")
        with grad_where(False):
            seen = view_neighbours(centres, others, neighbours, self.reach)
        hidden = self.seen(seen) + gather_neighbours(self.carried(others.features), neighbours)
        found = max_over_neighbours(self.mixed(hidden.relu_()))
        features = self.normalised(found.flatten(0, 1)).view_as(found).relu()
        return Capsules(centres.positions, centres.poses, centres.activations, features)
