"""Rotations as tensors: quaternions, the dominant eigenvector, the weighted mean, the L_q median.

Quaternions are WXYZ, Hamilton, unit, last axis 4; leading axes are batch axes. Everything is differentiable, runs on
any device and never makes it wait for the host. Shapes are always checked, values only inside `checking()`.
"""

from ._check import check_quaternion, check_weights, checking, is_checking
from .eigen import dominant_eigenvector
from .mean import weighted_mean
from .median import Weighting, lq_median, weiszfeld_weights
from .modes import full_precision, grad_where, is_exporting
from .quaternion import (
    angular_distance,
    canonicalize,
    conjugate,
    from_azimuth,
    from_matrix,
    from_rotvec,
    identity_like,
    left_matrix,
    multiply,
    nearest_with_up,
    random_quaternion,
    rotate,
    to_matrix,
)

__all__ = [
    "Weighting",
    "angular_distance",
    "canonicalize",
    "check_quaternion",
    "check_weights",
    "checking",
    "conjugate",
    "dominant_eigenvector",
    "from_azimuth",
    "from_matrix",
    "from_rotvec",
    "full_precision",
    "grad_where",
    "identity_like",
    "is_checking",
    "is_exporting",
    "left_matrix",
    "lq_median",
    "multiply",
    "nearest_with_up",
    "random_quaternion",
    "rotate",
    "to_matrix",
    "weighted_mean",
    "weiszfeld_weights",
]
