"""The capsule network: routing (Algorithm 1), the QEC module (Algorithm 2), the networks and their losses.

Poses are quaternions, WXYZ, Hamilton, unit; a capsule of activation 0 is masked and changes no result.
"""

from .baselines import Baseline, BaselineConfig
from .calibration import calibrated, fit_temperature
from .capsules import Capsules, Pooling
from .features import Ballot, Features, Neighbourhood
from .fused import use_fused_routing
from .kernel import TransformKernel
from .losses import cross_entropy, rotation_loss, spread_loss, spread_margin, upright_distance
from .module import QECModule
from .network import CONFIGS, Level, Prediction, QECConfig, QECNet, count_parameters
from .routing import Routed, route
from .siamese import RelativePose, SiameseQECNet
from .weights import Network, load_network, make_network, save_network

__all__ = [
    "CONFIGS",
    "Ballot",
    "Baseline",
    "BaselineConfig",
    "Capsules",
    "Features",
    "Level",
    "Neighbourhood",
    "Network",
    "Pooling",
    "Prediction",
    "QECConfig",
    "QECModule",
    "QECNet",
    "RelativePose",
    "Routed",
    "SiameseQECNet",
    "TransformKernel",
    "calibrated",
    "count_parameters",
    "cross_entropy",
    "fit_temperature",
    "load_network",
    "make_network",
    "rotation_loss",
    "route",
    "save_network",
    "spread_loss",
    "spread_margin",
    "upright_distance",
    "use_fused_routing",
]
