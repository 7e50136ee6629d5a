"""The pose baselines by name, behind one interface."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor

from qecnet.evaluation.pose_baselines.gicp import gicp
from qecnet.evaluation.pose_baselines.mean_lrf import mean_lrf
from qecnet.evaluation.pose_baselines.pca import pca
from qecnet.evaluation.pose_baselines.registration import fpfh_fgr, fpfh_ransac
from qecnet.geometry import PointCloud


class Align(Protocol):
    """The rotation (4,) WXYZ, float64, that turns one cloud into another, wherever and however large the two are."""

    def __call__(self, source: PointCloud, target: PointCloud, seed: int = 0) -> Tensor: ...


class Method(NamedTuple):
    """A way to align two clouds, and the package of `qecnet[baselines]` that it needs, if any."""

    align: Align
    package: str | None = None


METHODS = {
    "mean LRF": Method(mean_lrf),
    "PCA": Method(pca),
    "FPFH + RANSAC + ICP": Method(fpfh_ransac, "open3d"),
    "FPFH + FGR + ICP": Method(fpfh_fgr, "open3d"),
    "GICP": Method(gicp, "small_gicp"),
}
