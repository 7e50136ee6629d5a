"""Quaternions, WXYZ, as scipy's rotations and back, also for the oldest scipy, which knows XYZW only."""

import torch
from scipy.spatial.transform import Rotation
from torch import Tensor


def to_scipy(q: Tensor) -> Rotation:
    return Rotation.from_quat(q.double().roll(-1, -1).numpy())


def from_scipy(rotation: Rotation) -> Tensor:
    return torch.from_numpy(rotation.as_quat()).roll(1, -1)
