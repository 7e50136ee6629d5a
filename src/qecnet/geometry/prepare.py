"""`prepare`: from any cloud to `OrientedPoints`, which networks read: positions with local reference frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import torch
from torch import Tensor

from qecnet.algebra import multiply, rotate, to_matrix
from qecnet.geometry._pickling import PickledAsArrays
from qecnet.geometry._support import centre_cloud
from qecnet.geometry.candidates import propose_poses
from qecnet.geometry.cloud import PointCloud
from qecnet.geometry.frames import Frames, Method, estimate_frames, plane_frames
from qecnet.geometry.normals import Sign
from qecnet.geometry.sampling import MIN_POINTS, choose_farthest, find_strays, may_have_strays, random_points

PrepareMethod = Literal[Method, "none"]
"""How frames are estimated, or "none" for networks that read positions only."""


@dataclass(frozen=True, eq=False)
class OrientedPoints(PickledAsArrays):
    """Points with local reference frames, each cloud at zero mean and largest radius 1.

    Attributes:
        positions: (..., N, 3), of the frames.
        frames: (..., N, 4) quaternions, WXYZ, unit, frame to world; the identity where there is none.
        valid: (..., N) bool, which points have a frame. The others change no result.
        centre, scale: (..., 3) and (...) float64; the user's coordinates are ``positions * scale + centre``.
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
        """Make oriented points from positions and frames, with centre 0 and scale 1.

        Args:
            positions: (..., N, 3), at zero mean and radius 1.
            frames: (..., N, 4), WXYZ, unit.
            valid: (..., N) bool; all frames by default.

        Returns:
            The oriented points, without candidates.
        """
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
        """Stack clouds into a batch, along a new first axis.

        Args:
            clouds: with the same number of points, and of candidates.

        Returns:
            The batch.
        """
        return OrientedPoints(
            *(torch.stack([getattr(cloud, field.name) for cloud in clouds]) for field in fields(OrientedPoints))
        )

    def select(self, index: int | slice | Tensor) -> OrientedPoints:
        """Select clouds of a batch.

        Args:
            index: on the first axis.

        Returns:
            These clouds; with a number as index, a single cloud.
        """
        if self.positions.dim() < 3:
            raise ValueError("this is a single cloud, not a batch to select from")
        return OrientedPoints(*(getattr(self, field.name)[index] for field in fields(OrientedPoints)))

    def to(self, device: torch.device | str | None) -> OrientedPoints:
        """Move all tensors to a device.

        Args:
            device: the device; None leaves them where they are.

        Returns:
            The same there.
        """
        return OrientedPoints(*(getattr(self, field.name).to(device) for field in fields(OrientedPoints)))

    def rotated(self, q: Tensor) -> OrientedPoints:
        """Rotate positions, frames, candidates and centre about the user's origin, in the precision of `q`.

        Args:
            q: (..., 4), WXYZ, unit: one quaternion for each cloud.

        Returns:
            The rotated clouds.
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
        """Convert points from these coordinates to the user's own.

        Args:
            points: (..., M, 3).

        Returns:
            (..., M, 3) float64.
        """
        return points.double() * self.scale[..., None, None] + self.centre[..., None, :]


@dataclass(frozen=True)
class PrepareConfig:
    """Settings of `prepare`; the defaults are the paper's.

    Attributes:
        points: largest number of points that are used; a larger cloud is subsampled at random.
        frames: number of points that get a frame, chosen by farthest point sampling.
        method: of the frames, see `local_frames`; with "none", every point is valid and has the identity as frame.
        sign: the side that normals point to: "inward", "outward", "normals" for that of the cloud's own normals, or
            "camera" for that of the cloud's viewpoint, or outward where it is not known.
        candidates: whether to propose candidate poses, see `propose_poses`.
    """

    points: int = 10_000
    frames: int = 512
    method: PrepareMethod = "flare"
    sign: Literal["inward", "outward", "normals", "camera"] = "inward"
    candidates: bool = False

    def __post_init__(self) -> None:
        for name, limit in (("points", 1_000_000), ("frames", 20_000)):
            if getattr(self, name) < MIN_POINTS:
                raise ValueError(f"{name} is {getattr(self, name)}; a shape needs at least {MIN_POINTS}")
            if getattr(self, name) > limit:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at most {limit:,}")


def prepare(
    cloud: PointCloud, config: PrepareConfig | None = None, generator: torch.Generator | None = None
) -> OrientedPoints:
    """Clean, thin and centre a cloud, and estimate its local reference frames.

    Strays (see `find_strays`) are left out: farthest point sampling would choose them before all others.

    Args:
        cloud: the points.
        config: by default the paper's.
        generator: chooses a random subset, where the cloud has more than `config.points`.

    Returns:
        `config.frames` points in the order of farthest point sampling; where the cloud has fewer points than that, the
        rest is invalid and at the origin.

    Raises:
        ValueError: for a cloud of fewer than 9 distinct points, or a large one without a generator.
    """
    config = config or PrepareConfig()
    cloud = cloud.clean()
    if len(cloud) < MIN_POINTS:
        many = "1 distinct point" if len(cloud) == 1 else f"{len(cloud)} distinct points"
        raise ValueError(f"{cloud.name}: has {many}; a shape needs at least {MIN_POINTS}")
    if len(cloud) > config.points:
        if generator is None:
            raise ValueError(
                f"{cloud.name}: has {len(cloud)} points, more than the {config.points} to keep; give a generator"
            )
        cloud = cloud.select(random_points(cloud.points, config.points, generator))
    small = cloud.normalized()
    searched = centre_cloud(small.points)
    at = choose_farthest(searched, min(config.frames, len(small)), small.points)
    # In full precision: with a far stray, the rest of a normalised cloud would be one point in float32.
    if may_have_strays(searched, searched.points[at]) and (stray := find_strays(cloud.points)).any():
        small = cloud.select(~stray).normalized()
        searched = centre_cloud(small.points)
        at = choose_farthest(searched, min(config.frames, len(small)), small.points)
    count = len(at)
    if config.method == "none":
        found = Frames(small.points.new_tensor([1.0, 0, 0, 0]).repeat(count, 1), torch.ones(count, dtype=torch.bool))
    else:
        sign = _sign(small, config)
        found = estimate_frames(searched, searched.points[at], config.method, sign, small.points)
        if not found.valid.any():
            found = plane_frames(searched, searched.points[at], small.points)
    positions = torch.zeros(config.frames, 3)
    frames = torch.tensor([1.0, 0, 0, 0]).repeat(config.frames, 1)
    valid = torch.zeros(config.frames, dtype=torch.bool)
    positions[:count], frames[:count], valid[:count] = small.points[at], found.quaternions, found.valid
    poses = _candidates(positions[:count], found.quaternions, found.valid) if config.candidates else torch.zeros(0, 4)
    scale = torch.tensor(small.scale, dtype=torch.float64)
    return OrientedPoints(positions, frames, valid, small.centre, scale, poses)


def _candidates(positions: Tensor, frames: Tensor, valid: Tensor) -> Tensor:
    """(24, 4), with zeros for padding."""
    found = propose_poses(positions, to_matrix(frames)[..., 2], valid.to(positions))
    return torch.where(found.valid[:, None], found.poses, 0.0)


def _sign(cloud: PointCloud, config: PrepareConfig) -> Sign:
    """The configured sign rule for a cloud that has been normalised."""
    if config.sign == "normals":
        if cloud.normals is None:
            raise ValueError(f'{cloud.name}: has no normals to take signs from; use the sign "inward" or "outward"')
        return cloud.normals
    if config.sign == "camera":
        return "outward" if cloud.viewpoint is None else cloud.viewpoint
    return config.sign
