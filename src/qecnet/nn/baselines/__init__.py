"""Networks that others know, in compact form, to compare with: one short file each.

All of them read what `QECNet` reads, the same points and frames, and give a `Prediction`. They have no pose to give:
theirs is the identity for every class.
"""

from collections.abc import Mapping

from .base import Baseline, BaselineConfig
from .dgcnn import DGCNN
from .pointnet import PointNet
from .pointnet2 import PointNet2
from .ppf import PPFNet

BASELINES: Mapping[str, type[Baseline]] = {"pointnet": PointNet, "pointnet2": PointNet2, "dgcnn": DGCNN, "ppf": PPFNet}
"""Networks by the `kind` of their configuration."""

__all__ = ["BASELINES", "DGCNN", "Baseline", "BaselineConfig", "PPFNet", "PointNet", "PointNet2"]
