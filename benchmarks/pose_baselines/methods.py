"""The pose baselines by name, behind one interface."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor

from qecnet.geometry import PointCloud

from .gicp import gicp
from .mean_lrf import mean_lrf
from .pca import pca
from .registration import fpfh_fgr, fpfh_ransac


class Align(Protocol):
    """Estimates the rotation (4,) WXYZ, float64, from one cloud to another, whatever their places and sizes."""

    def __call__(self, source: PointCloud, target: PointCloud, seed: int = 0) -> Tensor: ...


class PoseBaseline(NamedTuple):
    """A way to align two clouds, and the package of `qecnet[baselines]` that it needs, if any."""

    align: Align
    package: str | None = None


METHODS = {
    "mean LRF": PoseBaseline(mean_lrf),
    "PCA": PoseBaseline(pca),
    "FPFH + RANSAC + ICP": PoseBaseline(fpfh_ransac, "open3d"),
    "FPFH + FGR + ICP": PoseBaseline(fpfh_fgr, "open3d"),
    "GICP": PoseBaseline(gicp, "small_gicp"),
}
