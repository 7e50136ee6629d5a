"""`OrientedPoints`: what networks read of a shape, positions with local reference frames, of one cloud or of many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from qecnet.algebra import multiply, rotate
from qecnet.geometry._pickling import PickledAsArrays


@dataclass(frozen=True, eq=False)
class OrientedPoints(PickledAsArrays):
    """Points with local reference frames, each cloud at zero mean and largest radius 1.

    Attributes:
        positions: (..., N, 3), where the frames are.
        frames: (..., N, 4) quaternions, WXYZ, unit, frame to world; the identity where there is none.
        valid: (..., N) bool, which points have a frame. The others change no result.
        centre: (..., 3) float64 and scale: (...) float64; the user's coordinates are ``positions * scale + centre``.
        candidates: (..., C, 4) quaternions, WXYZ: candidate poses of the shape, see `propose_poses`, or zeros for
            padding. C is 0 where the network does not read them.
    """

    positions: Tensor
    frames: Tensor
    valid: Tensor
    centre: Tensor
    scale: Tensor
    candidates: Tensor

    def __post_init__(self) -> None:
        batch = tuple(self.positions.shape[:-2])
        wanted = {
            "positions": (*self.valid.shape, 3),
            "frames": (*self.valid.shape, 4),
            "centre": (*batch, 3),
            "scale": batch,
            "candidates": (*batch, *self.candidates.shape[-2:-1], 4),
        }
        for name, shape in wanted.items():
            if (found := tuple(getattr(self, name).shape)) != shape:
                raise ValueError(f"{name} has shape {found}; for valid {tuple(self.valid.shape)} it must be {shape}")
        if self.valid.dtype != torch.bool:
            raise ValueError(f"valid has dtype {self.valid.dtype}; it must be bool")

    @staticmethod
    def from_frames(positions: Tensor, frames: Tensor, valid: Tensor | None = None) -> OrientedPoints:
        """Wrap positions (..., N, 3) at zero mean and radius 1 and their frames (..., N, 4); by default all valid."""
        batch = positions.shape[:-2]
        return OrientedPoints(
            positions,
            frames,
            torch.ones_like(frames[..., 0], dtype=torch.bool) if valid is None else valid,
            torch.zeros(*batch, 3, dtype=torch.float64, device=positions.device),
            torch.ones(batch, dtype=torch.float64, device=positions.device),
            frames.new_zeros(*batch, 0, 4),
        )

    @staticmethod
    def stack(clouds: Sequence[OrientedPoints]) -> OrientedPoints:
        """Put clouds of the same number of points into one batch, along a new first axis."""
        return OrientedPoints(
            *(torch.stack([getattr(cloud, field.name) for cloud in clouds]) for field in fields(OrientedPoints))
        )

    def select(self, index: int | slice | Tensor) -> OrientedPoints:
        """Take clouds of a batch by their place on its first axis."""
        if self.positions.dim() < 3:
            raise ValueError("this is a single cloud, not a batch to select from")
        return OrientedPoints(*(getattr(self, field.name)[index] for field in fields(OrientedPoints)))

    def to(self, device: torch.device | str | None) -> OrientedPoints:
        """Move all tensors to a device."""
        return OrientedPoints(*(getattr(self, field.name).to(device) for field in fields(OrientedPoints)))

    def rotated(self, q: Tensor) -> OrientedPoints:
        """Rotate positions, frames, candidates and centre about the user's origin, in the precision of `q`.

        Args:
            q: (..., 4), WXYZ, unit: one quaternion for each cloud.
        """
        each, dtype = q[..., None, :], self.positions.dtype
        frames, candidates = (
            multiply(each.expand_as(poses), poses.to(q.dtype)).to(dtype) for poses in (self.frames, self.candidates)
        )
        return replace(
            self,
            positions=rotate(each, self.positions.to(q.dtype)).to(dtype),
            frames=frames,
            candidates=candidates,
            centre=rotate(q.double(), self.centre),
        )

    def restore(self, points: Tensor) -> Tensor:
        """Put (..., M, 3) points given in these coordinates back into the user's own; float64."""
        return points.double() * self.scale[..., None, None] + self.centre[..., None, :]
