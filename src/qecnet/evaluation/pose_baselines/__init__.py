"""Pose without learning: what one would take instead of a network, each in one short file, and how well it does.

Given two clouds, a baseline says which rotation turns the first into the second.
"""

from qecnet.evaluation.pose_baselines._shared import NoPoseError
from qecnet.evaluation.pose_baselines.gicp import gicp, refine
from qecnet.evaluation.pose_baselines.mean_lrf import mean_lrf, mean_pose
from qecnet.evaluation.pose_baselines.measure import Row, measure_pose_baselines, pose_rows, scores
from qecnet.evaluation.pose_baselines.methods import METHODS, Align, Method
from qecnet.evaluation.pose_baselines.pca import pca, principal_axes
from qecnet.evaluation.pose_baselines.registration import fpfh_fgr, fpfh_ransac

__all__ = [
    "METHODS",
    "Align",
    "Method",
    "NoPoseError",
    "Row",
    "fpfh_fgr",
    "fpfh_ransac",
    "gicp",
    "mean_lrf",
    "mean_pose",
    "measure_pose_baselines",
    "pca",
    "pose_rows",
    "principal_axes",
    "refine",
    "scores",
]
