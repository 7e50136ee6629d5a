"""How much a rotation changes predictions, by cause: the network (rounding alone), the frames, the points."""

import numpy as np

from qecnet.evaluation.measurement import Measurement
from qecnet.evaluation.metrics import relative_rotation, rotation_angles
from qecnet.evaluation.predict import Predictions
from qecnet.evaluation.protocols import TestView
from qecnet.evaluation.results import EquivarianceResult, PredictionChange, StageAccuracy


def measure_equivariance(measurement: Measurement, rotations: int = 5) -> EquivarianceResult:
    """Compare rotated views of each test shape with its upright one.

    - network: the same points, frames rotated with them. What changes is the network's own error.
    - frames: the same points, frames estimated after the rotation.
    - resampled: each view has points of its own, and frames estimated from them.

    Args:
        measurement: what is measured; its protocol is not used.
        rotations: number of rotated views of each shape.

    Returns:
        The result, for `write_result`.
    """
    same = [TestView(0, turn) for turn in range(rotations + 1)]
    own = [TestView(turn, turn) for turn in range(rotations + 1)]
    network = measurement.predict("equivariance-network", same, protocol="paper")
    frames = measurement.predict("equivariance-frames", same, protocol="strict")
    resampled = measurement.predict("equivariance-resampled", own, protocol="strict")
    stages = (network, frames, resampled)
    changes = [_change(found, rotations + 1, measurement.model.has_poses) for found in stages]
    return EquivarianceResult(
        **measurement.describe(resampled, "strict"),
        rotations=rotations,
        network=changes[0],
        frames=changes[1],
        resampled=changes[2],
        accuracy=StageAccuracy(
            float(resampled.correct[resampled.turn == 0].mean()),
            *(float(found.correct[found.turn > 0].mean()) for found in stages),
        ),
    )


def _change(found: Predictions, views: int, has_poses: bool) -> PredictionChange:
    """Compare the first view of each shape, upright, with its others; poses are those of the true class."""
    activations = found.activations.reshape(-1, views, len(found.classes))
    predicted = found.predicted.reshape(-1, views)
    median = largest = None
    if has_poses:
        poses = found.poses[:, 1].reshape(-1, views, 4)
        upright = np.broadcast_to(poses[:, :1], poses[:, 1:].shape)
        rotation = found.rotation.reshape(-1, views, 4)[:, 1:]
        off = np.degrees(rotation_angles(relative_rotation(upright, poses[:, 1:]), rotation))
        median, largest = float(np.median(off)), float(off.max())
    return PredictionChange(
        float(np.abs(activations[:, 1:] - activations[:, :1]).max()),
        float((predicted[:, 1:] != predicted[:, :1]).mean()),
        median,
        largest,
    )
