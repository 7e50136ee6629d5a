"""How good a model is, measured the same way for each: protocols, metrics, baselines."""

from qecnet.evaluation.metrics import (
    BINS,
    EXPECTED_RANDOM_RAE,
    NO_SYM,
    angles,
    relative,
    rotation_groups,
    rotation_row,
)
from qecnet.evaluation.symmetry import IDENTITY, symmetric_angles, symmetric_distance

__all__ = [
    "BINS",
    "EXPECTED_RANDOM_RAE",
    "IDENTITY",
    "NO_SYM",
    "angles",
    "relative",
    "rotation_groups",
    "rotation_row",
    "symmetric_angles",
    "symmetric_distance",
]
