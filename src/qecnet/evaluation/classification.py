"""Table 1: accuracy on upright (NR/NR) and on randomly rotated shapes (NR/AR)."""

from qecnet.evaluation.measurement import Measurement
from qecnet.evaluation.metrics import score_classification
from qecnet.evaluation.predict import Predictions
from qecnet.evaluation.results import Accuracy, ClassificationResult


def measure_classification(measurement: Measurement, rotations: int = 5) -> ClassificationResult:
    """Measure the accuracy on one upright and several rotated views of each test shape.

    Args:
        measurement: what is measured, and how.
        rotations: number of rotated views of each shape, each resampled on its own.

    Returns:
        The result, for `write_result`.
    """
    found = measurement.predict_test_views(rotations)
    upright = found.turn == 0
    return ClassificationResult(
        **measurement.describe(found),
        rotations=rotations,
        nr=_score(found.select(upright), measurement.seed),
        ar=_score(found.select(~upright), measurement.seed),
    )


def _score(found: Predictions, seed: int) -> Accuracy:
    return score_classification(found.label, found.predicted, found.shape, found.classes, seed)
