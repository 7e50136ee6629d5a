"""Principal axes: the classic pose of a cloud, with an equivariant rule for the signs of the axes.

With such a rule, clouds that are only resampled and clouds that are rotated too (the paper's PCA-S and PCA-SR) have
the same errors. The paper's differ, 0.40 and 0.67, as they do if signs are not equivariant.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from qecnet.algebra import canonicalize, conjugate, from_matrix, multiply
from qecnet.geometry import PointCloud

from ._shared import THIN, Array, normalize_points


def pca(source: PointCloud, target: PointCloud, seed: int = 0) -> Tensor:
    """Estimate the rotation from `source` to `target` by their principal axes. → (4,) WXYZ, float64

    The method is deterministic; `seed` is not used.

    Raises:
        NoPoseError: for a cloud on a line or of one point.
    """
    first, second = (
        from_matrix(torch.from_numpy(principal_axes(normalize_points(cloud)))) for cloud in (source, target)
    )
    return canonicalize(multiply(second, conjugate(first)))


def principal_axes(points: Array) -> Array:
    """The axes of centred points (N, 3) as columns, the longest first, right-handed. → (3, 3)

    Each axis points to where the third moment along it is positive. Three such signs can make a mirror image; then the
    axis is reversed whose moment says least, that is, is the smallest relative to its own spread. It is the one across
    the mirror plane that most furniture has. Where two extents are equal or a moment is 0 the axes are arbitrary.
    """
    _, ascending = np.linalg.eigh(points.T @ points)
    axes = ascending[:, ::-1]
    along = points @ axes
    spread = np.sqrt((along**6).mean(0))
    sure = np.where(spread > THIN**3, (along**3).mean(0) / np.maximum(spread, THIN**3), 0)
    axes = axes * np.where(sure < 0, -1, 1)
    if np.linalg.det(axes) < 0:
        axes[:, np.abs(sure).argmin()] *= -1
    return np.ascontiguousarray(axes)
