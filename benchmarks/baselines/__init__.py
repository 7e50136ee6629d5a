"""Networks that others know, in compact form, to compare with: one short file each.

They read what all networks of qecnet read, and are registered by name when this package is imported. Training and
measuring one are one command each:

    python -m benchmarks.baselines train --config pointnet --dataset shapes --out runs/pointnet
    python -m benchmarks.baselines evaluate classification runs/pointnet

`python -m benchmarks.baselines.budget` trains and measures all of them, each for the same number of minutes.
"""

from benchmarks.baselines.base import Baseline, BaselineConfig, register_baseline
from benchmarks.baselines.dgcnn import DGCNN
from benchmarks.baselines.it_net import ITNet
from benchmarks.baselines.kd_network import KdNetwork
from benchmarks.baselines.point2sequence import Point2Sequence
from benchmarks.baselines.pointnet import PointNet
from benchmarks.baselines.pointnet2 import PointNet2
from benchmarks.baselines.pointnetlk import PointNetLK
from benchmarks.baselines.ppf import PPFNet
from benchmarks.baselines.prin import PRIN
from benchmarks.baselines.riconv import RIConv
from benchmarks.baselines.spherical_cnn import SphericalCNN
from benchmarks.baselines.tensor_field import TensorFieldNetwork
from benchmarks.baselines.vector_neurons import VectorNeurons

BASELINES: dict[str, type[Baseline]] = {
    "pointnet": PointNet,
    "pointnet2": PointNet2,
    "dgcnn": DGCNN,
    "ppf": PPFNet,
    "spherical_cnn": SphericalCNN,
    "prin": PRIN,
    "kd_network": KdNetwork,
    "point2sequence": Point2Sequence,
    "tensor_field": TensorFieldNetwork,
    "riconv": RIConv,
    "vector_neurons": VectorNeurons,
}
"""Those that classify, by the names that they are registered under."""

ORIENTATION: dict[str, type[Baseline]] = {"it_net": ITNet, "pointnetlk": PointNetLK}
"""Those that estimate orientations, by name."""

for _name, _network in (BASELINES | ORIENTATION).items():
    register_baseline(_name, _network)

__all__ = ["BASELINES", "ORIENTATION", "Baseline", "BaselineConfig", "PointNet"]
