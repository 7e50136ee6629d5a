"""Networks that others know, in compact form, to compare with: one short file each.

They read what all networks of qecnet read, and are registered by name when this package is imported. Training and
measuring one are one command each:

    python -m benchmarks.baselines train --config pointnet --dataset shapes --out runs/pointnet
    python -m benchmarks.baselines evaluate runs/pointnet
"""

from benchmarks.baselines.base import Baseline, register_baseline
from benchmarks.baselines.dgcnn import DGCNN
from benchmarks.baselines.pointnet import PointNet
from benchmarks.baselines.pointnet2 import PointNet2
from benchmarks.baselines.ppf import PPFNet

BASELINES: dict[str, type[Baseline]] = {"pointnet": PointNet, "pointnet2": PointNet2, "dgcnn": DGCNN, "ppf": PPFNet}
"""By the names that they are registered under."""

for _name, _network in BASELINES.items():
    register_baseline(_name, _network)

__all__ = ["BASELINES", "DGCNN", "Baseline", "PPFNet", "PointNet", "PointNet2"]
