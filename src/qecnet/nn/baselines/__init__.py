"""Networks that others know, in compact form, to compare with: one short file each.

All of them read what `QECNet` reads, the same points and frames, and give a `Prediction`. They have no pose to give:
theirs is the identity for every class.
"""

from collections.abc import Mapping

from .base import Baseline, BaselineConfig
from .pointnet import PointNet

BASELINES: Mapping[str, type[Baseline]] = {"pointnet": PointNet}
"""Networks by the `kind` of their configuration."""

__all__ = ["BASELINES", "Baseline", "BaselineConfig", "PointNet"]
