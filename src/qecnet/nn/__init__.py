"""The capsule networks: routing (Algorithm 1), the QEC module (Algorithm 2), networks by name, and their losses.

Poses are quaternions, WXYZ, Hamilton, unit; a capsule of activation 0 is masked and changes no result.
"""

from .capsules import Capsules, Pooling
from .features import FeatureConfig, FeatureNet, Neighbourhood
from .kernel import Nonlinearity
from .losses import cross_entropy, rotation_loss, spread_loss, upright_distance
from .module import QECModule
from .network import Network, NetworkConfig
from .orientations import SAME_DIRECTION, Orientations, right_poses
from .paper import PatchOrigin, QECConfig, QECNet
from .prediction import Ballot, Prediction, Whole
from .registry import (
    RegisteredNetwork,
    create_network,
    find_network,
    list_networks,
    register_network,
)
from .routing import Gradients, Routed, route
from .summary_layer import SUMMARY_SIZE
from .temperature import Calibration, candidate_set, fit_calibration
from .tracing import PatchCapsules, VotingRound
from .upright import UprightConfig, UprightNet
from .weights import count_parameters, load_network, parts_left_out, save_network, start_from

__all__ = [
    "SAME_DIRECTION",
    "SUMMARY_SIZE",
    "Ballot",
    "Calibration",
    "Capsules",
    "FeatureConfig",
    "FeatureNet",
    "Gradients",
    "Neighbourhood",
    "Network",
    "NetworkConfig",
    "Nonlinearity",
    "Orientations",
    "PatchCapsules",
    "PatchOrigin",
    "Pooling",
    "Prediction",
    "QECConfig",
    "QECModule",
    "QECNet",
    "RegisteredNetwork",
    "Routed",
    "UprightConfig",
    "UprightNet",
    "VotingRound",
    "Whole",
    "candidate_set",
    "count_parameters",
    "create_network",
    "cross_entropy",
    "find_network",
    "fit_calibration",
    "list_networks",
    "load_network",
    "parts_left_out",
    "register_network",
    "right_poses",
    "rotation_loss",
    "route",
    "save_network",
    "spread_loss",
    "start_from",
    "upright_distance",
]
