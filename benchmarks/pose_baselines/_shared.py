"""What the pose baselines share: normalised points, and optional packages."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qecnet.algebra import canonicalize, from_matrix
from qecnet.geometry import PointCloud

Array = NDArray[np.float64]

THIN = 1e-5
"""Below this share of the radius, an extent is only float32 rounding."""


class NoPoseError(ValueError):
    """A cloud whose orientation the method cannot estimate."""


def normalize_points(cloud: PointCloud) -> Array:
    """Get the distinct points in float64, at zero mean and largest radius 1. → (N, 3)

    Raises:
        NoPoseError: if they lie on a line or are one point: rotated about it, the cloud stays the same.
    """
    points: Array = cloud.clean().normalized(torch.float64).points.numpy(force=True)
    if np.linalg.svd(points, compute_uv=False)[1:2].sum() <= THIN * np.sqrt(len(points)):
        raise NoPoseError(f"{cloud.name}: its points are on a line, which has no orientation; give a shape")
    return points


def extract_rotation(transform: Array) -> Tensor:
    """Get the rotation of a rigid transform (4, 4). → (4,) WXYZ, float64, w ≥ 0"""
    return canonicalize(from_matrix(torch.from_numpy(np.array(transform[:3, :3], dtype=np.float64))))


def import_package(name: str) -> Any:
    """Import a package of the extra `qecnet[baselines]`, or say how to install it."""
    try:
        return importlib.import_module(name)
    except (ImportError, OSError) as error:
        raise ValueError(
            f"{name} cannot be imported ({error}); pip install 'qecnet[baselines]', and for open3d on Debian, "
            "apt-get install libusb-1.0-0 libgl1"
        ) from error
