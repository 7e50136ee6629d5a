"""Candidate orientations of a shape that need no learning; a network verifies which of them is upright.

Objects usually rest on a face of their convex hull, or their up direction is an axis that their normals share. Both
rotate with the shape.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from qecnet.algebra import canonicalize, from_matrix, from_rotvec, multiply, to_matrix
from qecnet.geometry._hull import resting_directions
from qecnet.geometry._support import centre_cloud, check_cloud
from qecnet.geometry.snapping import EVIDENCE, alignments, fourth_moment, snap_to_moment

MOST_CANDIDATES = 24
"""Candidates of a shape, at most."""

_FACES = 8
_APART = math.cos(math.radians(4.0))  # closer up directions are one candidate
_RESOLUTION = 1e-5  # alignments that differ by less are equal
_QUARTER = math.pi / 2

_AXES = torch.eye(3, dtype=torch.float64, device="cpu")
# A principal frame, and the same rotated by 45° about each of its axes: where the iterations start.
_STARTS = from_rotvec(torch.cat((torch.zeros_like(_AXES[:1]), _AXES * _QUARTER / 2)))


class Candidates(NamedTuple):
    """Candidate poses of a shape, best first, padded to a fixed size.

    Attributes:
        poses: (24, 4) quaternions, WXYZ, frame to world: the z axis is the candidate's up direction. Padding has the
            identity.
        valid: (24,) which of them are candidates.
    """

    poses: Tensor
    valid: Tensor


def propose_poses(positions: Tensor, normals: Tensor, weights: Tensor | None = None) -> Candidates:
    """Candidate poses of a shape: on its resting faces, and along axes that its normals share.

    In this order, and without any whose up direction is within 4° of an earlier one:

    1. the eight steadiest faces of the convex hull (see `find_resting_ups`);
    2. the axes that the normals share (see `find_axis_ups`).

    The x axis lies along walls, or along the wider side of the shape where the normals show no walls; of four such
    directions it is the one along the wider side, towards the end that is farther. The set rotates with the shape, and
    so do the azimuths unless two sides or ends are equal.

    Args:
        positions: (N, 3), any scale and position. Their hull takes a few milliseconds for a thousand points.
        normals: (N, 3) unit normals of either sign; a row of zeros is an unknown normal.
        weights: (N,) of the normals, at least 0; 0 masks a normal, not its position. All 1 by default.

    Returns:
        24 poses with a mask, in the dtype and on the device of `positions`. At least one is valid unless all positions
        are equal.

    Raises:
        ValueError: if positions are not finite or shapes do not match.
    """
    points, moment = _prepare(positions, normals, weights)
    own = _start_frames(points)
    ups = torch.cat((_resting_ups(points), _axis_ends(own, snap_to_moment(own, moment), points, moment)))
    poses = _face_along_walls(ups, points, moment)
    poses = poses[_distinct(to_matrix(poses)[:, :, 2])[:MOST_CANDIDATES]]
    padded = torch.tensor([1.0, 0, 0, 0], dtype=torch.float64).repeat(MOST_CANDIDATES, 1)
    padded[: len(poses)] = canonicalize(poses)
    return Candidates(padded.to(positions), (torch.arange(MOST_CANDIDATES) < len(poses)).to(positions.device))


def find_resting_ups(positions: Tensor) -> Tensor:
    """Up directions in which a rigid object would stand: the eight steadiest faces of its convex hull, steadiest first.

    Args:
        positions: (N, 3), any scale and position. Flat clouds have two sides and edges, clouds on a line its two ends.

    Returns:
        (F, 3) unit vectors, F ≤ 8; none where all positions are equal.
    """
    check_cloud(positions)
    return _resting_ups(torch.from_numpy(centre_cloud(positions).points)).to(positions)


def find_axis_ups(positions: Tensor, normals: Tensor, weights: Tensor | None = None) -> Tensor:
    """Up directions along the axes that the normals share: both ends of what `snap_pose` finds from principal frames.

    Where the normals share none, these are the principal axes of the positions.

    Args:
        positions: (N, 3), any scale and position.
        normals: (N, 3) unit normals of either sign; a row of zeros is an unknown normal.
        weights: (N,) of the normals, at least 0. All 1 by default.

    Returns:
        (A, 3) unit vectors, A ≤ 24, at least 4° apart; frames that explain more of the normals first, and of a frame
        the axes that more of the surface faces. None where all positions are equal.
    """
    points, moment = _prepare(positions, normals, weights)
    start = _start_frames(points)
    return _axis_ends(start, snap_to_moment(start, moment), points, moment).to(positions)


def _prepare(positions: Tensor, normals: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Positions (N, 3) at zero mean and radius 1, and the normals' fourth moment (9, 9), in float64 on the host."""
    check_cloud(positions)
    if normals.shape != positions.shape:
        raise ValueError(
            f"normals have the shape {tuple(normals.shape)} for positions of {tuple(positions.shape)}; give one each"
        )
    if weights is not None:
        weights = weights.detach().to("cpu", torch.float64)
    moment = fourth_moment(normals.detach().to("cpu", torch.float64), weights)
    if not moment.isfinite().all():
        raise ValueError("normals or weights are not finite; give unknown normals as zeros or with the weight 0")
    return torch.from_numpy(centre_cloud(positions).points), moment


def _resting_ups(points: Tensor) -> Tensor:
    return torch.from_numpy(resting_directions(points.numpy(), _FACES))


def _start_frames(points: Tensor) -> Tensor:
    """(4, 4) poses for the iterations to start from; none where all points are equal."""
    if not points.any():
        return points.new_zeros(0, 4)
    axes = torch.linalg.eigh(points.mT @ points).eigenvectors
    axes = axes * torch.linalg.det(axes).sign()
    return multiply(from_matrix(axes, orthonormal=True), _STARTS)


def _axis_ends(start: Tensor, snapped: Tensor, points: Tensor, moment: Tensor) -> Tensor:
    """(A, 3) distinct directions of the axes of frames (F, 4), in the order that `find_axis_ups` describes."""
    # If the normals share no axes, only those of the principal frame, the first, are used.
    shown = (snapped != start).any(-1)
    shown[:1] = True
    frames = snapped[shown]
    facing = alignments(frames, moment).diagonal(dim1=-2, dim2=-1)
    explained = facing.sum(-1, keepdim=True)
    # One key for both: whole numbers for the frame, and a fraction for the axis.
    key = (explained / _RESOLUTION).round() + (facing / _RESOLUTION).round() * (_RESOLUTION / 2)
    axes = to_matrix(frames).mT.flatten(0, 1)[key.flatten().argsort(descending=True, stable=True)]
    low = (points @ axes.mT).pow(3).sum(0) >= 0  # reaches farther up than down, so most of it is low
    axes = torch.where(low[:, None], axes, -axes)
    ends = torch.stack((axes, -axes), dim=1).flatten(0, 1)
    return ends[_distinct(ends)]


def _face_along_walls(ups: Tensor, points: Tensor, moment: Tensor) -> Tensor:
    """Poses (C, 4) with the z axes `ups` (C, 3) and the azimuth that `propose_poses` describes."""
    x = normalize(torch.linalg.cross(_AXES[ups.abs().argmin(-1)], ups), dim=-1)
    plane = torch.complex(x, torch.linalg.cross(ups, x))
    # A direction across `up` is a complex number: the mean of its fourth power does not tell quarter turns apart.
    squares = (plane[:, :, None] * plane[:, None, :]).flatten(1)
    fourth = ((squares @ moment.to(squares)) * squares).sum(-1)
    across = points.to(plane.dtype) @ plane.mT
    wide = across.square().sum(0).angle() / 2
    walls = fourth.angle() / 4
    walls = walls + ((wide - walls) / _QUARTER).round() * _QUARTER
    azimuth = torch.where(fourth.abs() >= EVIDENCE, walls, wide)
    direction = torch.polar(torch.ones_like(azimuth), azimuth)
    farther = (across * direction.conj()).real.pow(3).sum(0) >= 0
    x = (plane * torch.where(farther, direction, -direction).conj()[:, None]).real
    return from_matrix(torch.stack((x, torch.linalg.cross(ups, x), ups), dim=-1), orthonormal=True)


def _distinct(ups: Tensor) -> Tensor:
    """Indices of those of (C, 3) up directions that are not near one with a lower index that is kept."""
    near = (ups @ ups.mT > _APART).numpy()
    kept: list[int] = []
    for index in range(len(ups)):
        if not near[index, kept].any():
            kept.append(index)
    return torch.tensor(kept, dtype=torch.int64)
