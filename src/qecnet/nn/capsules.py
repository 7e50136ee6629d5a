"""Capsules, the input and output of modules, and how they are grouped into patches."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..algebra import identity_like, is_checking
from ..geometry import OrientedPoints


@dataclass(frozen=True, eq=False)
class Capsules:
    """Poses and activations at points in space; `*batch` may be (clouds, points) or (clouds, patches, neighbours).

    Attributes:
        positions: (*batch, 3).
        poses: (*batch, channels, 4), quaternions WXYZ, unit.
        activations: (*batch, channels), at least 0; a capsule of activation 0 is masked: it changes no result.
        features: (*batch, F), invariant to rotation; None in the paper's network.
    """

    positions: Tensor
    poses: Tensor
    activations: Tensor
    features: Tensor | None = None

    def __post_init__(self) -> None:
        batch, channels = self.positions.shape[:-1], self.poses.shape[-2:-1]
        _check_shape("positions", self.positions, (*batch, 3))
        _check_shape("poses", self.poses, (*batch, *channels, 4))
        _check_shape("activations", self.activations, (*batch, *channels))
        if self.features is not None:
            _check_shape("features", self.features, (*batch, *self.features.shape[-1:]))

    @staticmethod
    def primary(positions: Tensor, frames: Tensor, valid: Tensor | None = None) -> "Capsules":
        """Make the input capsules, one for each local reference frame.

        Args:
            positions: (..., N, 3).
            frames: (..., N, 4), WXYZ.
            valid: (..., N) bool; all frames by default.

        Returns:
            Capsules with one channel; the activation is 1, or 0 where the frame is invalid.
        """
        if valid is None:
            valid = torch.ones_like(frames[..., 0], dtype=torch.bool)
        return Capsules(positions, frames[..., None, :], valid[..., None].to(frames.dtype))

    def group(self, pooling: "Pooling") -> "Capsules":
        """Gather the neighbours of each patch.

        A masked capsule gets the identity as pose, and the origin as position where all capsules of a point are
        masked, so that their values are not used.

        Args:
            pooling: which points each patch reads.

        Returns:
            Capsules (clouds, patches, neighbours); missing neighbours are masked.
        """
        if pooling.neighbours.shape[0] != self.positions.shape[0]:
            raise ValueError(f"the pooling is for {len(pooling.neighbours)} clouds; there are {len(self.positions)}")
        if is_checking() and pooling.neighbours.numel():
            low, high = int(pooling.neighbours.min()), int(pooling.neighbours.max())
            if low < 0 or high >= self.positions.shape[1]:
                raise ValueError(f"neighbours run from {low} to {high}; there are {self.positions.shape[1]} points")
        clouds = torch.arange(self.positions.shape[0], device=self.positions.device)[:, None, None]
        picked = Capsules(*(x[clouds, pooling.neighbours] for x in (self.positions, self.poses, self.activations)))
        activations = torch.where(pooling.present[..., None], picked.activations, 0.0)
        masked = activations == 0
        identity = identity_like(picked.poses)
        return Capsules(
            torch.where(masked.all(-1, keepdim=True), 0.0, picked.positions),
            torch.where(masked[..., None], identity, picked.poses),
            activations,
        )


@dataclass(frozen=True, eq=False)
class Pooling:
    """A pooling graph: which points each patch reads.

    Attributes:
        centres: (clouds, patches, 3), positions of the capsules that the patches result in.
        neighbours: (clouds, patches, K), indices of points.
        present: (clouds, patches, K) bool; False where a neighbour is missing (its index is then any valid one).
        origins: (clouds, patches, 3), what the positions that a patch reads are relative to; None for its centre.
    """

    centres: Tensor
    neighbours: Tensor
    present: Tensor
    origins: Tensor | None = None

    def __post_init__(self) -> None:
        _check_shape("present", self.present, self.neighbours.shape)
        for name, places in (("centres", self.centres), ("origins", self.origins)):
            if places is not None:
                _check_shape(name, places, (*self.neighbours.shape[:2], 3))

    @staticmethod
    def at(positions: Tensor, centres: Tensor, neighbours: Tensor, present: Tensor) -> "Pooling":
        """Make a pooling whose patches are centred at points.

        Args:
            positions: (clouds, points, 3).
            centres: (clouds, patches), indices of the points that are centres.
            neighbours: (clouds, patches, K), indices of points.
            present: (clouds, patches, K) bool, False where a neighbour is missing.

        Returns:
            The pooling.
        """
        return Pooling(positions.gather(1, centres[..., None].expand(*centres.shape, 3)), neighbours, present)

    @staticmethod
    def whole(capsules: Capsules) -> "Pooling":
        """Make one patch of all points, for the last module (Sec. 5.2).

        Args:
            capsules: (clouds, points).

        Returns:
            The pooling; the centre of the patch is that of the cloud, the origin.
        """
        clouds, points = capsules.positions.shape[:2]
        neighbours = torch.arange(points, device=capsules.positions.device).expand(clouds, 1, points)
        return Pooling(
            capsules.positions.new_zeros(clouds, 1, 3), neighbours, torch.ones_like(neighbours, dtype=torch.bool)
        )


def _check_shape(name: str, x: Tensor, shape: tuple[int, ...]) -> None:
    """Raise a ValueError unless a tensor has this shape, which follows from the shapes of others."""
    if x.shape != shape:
        raise ValueError(f"{name} has shape {tuple(x.shape)}; to fit the others it must be {tuple(shape)}")


def fill(points: OrientedPoints) -> Capsules:
    """The valid points as primary capsules, in their order, repeated until all places are taken.

    So nothing after this needs a mask: duplicates do not change a maximum. Where none is valid, the frame is the
    identity at the origin.
    """
    valid = points.valid
    count = valid.shape[1]
    number = torch.arange(count, device=valid.device)
    order = torch.where(valid, number, number + count).argsort(dim=1)
    place = number % valid.sum(1, keepdim=True).clamp_min(1)
    index = order.gather(1, place)[..., None]
    positions = points.positions.gather(1, index.expand_as(points.positions))
    frames = points.frames.gather(1, index.expand_as(points.frames))
    nobody = ~valid.any(1)[:, None, None]
    identity = identity_like(frames)
    return Capsules.primary(torch.where(nobody, 0.0, positions), torch.where(nobody, identity, frames))
