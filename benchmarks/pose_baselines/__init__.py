"""Pose without learning: common alternatives to a network, each in one short file, and how well they do.

Given two clouds, a baseline estimates the rotation from the first to the second. Run from the repository's folder:

    python -m benchmarks.pose_baselines results/modelnet10/evaluation --data ModelNet10.zip
"""

from ._shared import NoPoseError
from .gicp import gicp, refine
from .mean_lrf import mean_lrf, mean_pose
from .measure import AlignedPair, align_pairs, measure_pose_baselines, score
from .methods import METHODS, Align, PoseBaseline
from .pca import pca, principal_axes
from .registration import fpfh_fgr, fpfh_ransac

__all__ = [
    "METHODS",
    "Align",
    "AlignedPair",
    "NoPoseError",
    "PoseBaseline",
    "align_pairs",
    "fpfh_fgr",
    "fpfh_ransac",
    "gicp",
    "mean_lrf",
    "mean_pose",
    "measure_pose_baselines",
    "pca",
    "principal_axes",
    "refine",
    "score",
]
