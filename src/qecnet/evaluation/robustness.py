"""Table 3 and further: accuracy and orientation error on corrupted input."""

import numpy as np

from qecnet.evaluation.corruption import CORRUPTIONS, Corruption
from qecnet.evaluation.measurement import Measurement
from qecnet.evaluation.metrics import score_classification
from qecnet.evaluation.predict import Predictions
from qecnet.evaluation.protocols import TestView
from qecnet.evaluation.results import CorruptionScores, RobustnessResult
from qecnet.evaluation.rotation import siamese_errors


def measure_robustness(measurement: Measurement) -> RobustnessResult:
    """Classify and align two views of each test shape at each of `CORRUPTIONS`, each resampled and rotated on its own.

    Args:
        measurement: what is measured, and how.

    Returns:
        The result, for `write_result`.
    """
    rows = []
    for corruption in CORRUPTIONS:
        name = f"robustness-{measurement.protocol}-{corruption.kind}-{corruption.level:g}"
        found = measurement.predict(name, [TestView(1, 1), TestView(2, 2)], corruption=corruption)
        rows.append(_score(found, corruption, measurement.seed, measurement.model.has_poses))
    most = max(row.points or 0 for row in rows)
    return RobustnessResult(**measurement.describe(found) | {"points": most}, levels=tuple(rows))


def _score(found: Predictions, corruption: Corruption, seed: int, has_poses: bool) -> CorruptionScores:
    named = score_classification(found.label, found.predicted, found.shape, found.classes, seed)
    points = int(np.median(found.points))
    about = (corruption.kind, corruption.level, named.accuracy, named.interval)
    if not has_poses:
        return CorruptionScores(*about, None, None, None, points)
    pairs = siamese_errors(found)
    correct, no_sym, every = pairs.correct.no_sym, pairs.all.no_sym, pairs.all.all_classes
    return CorruptionScores(
        *about,
        rae=None if correct is None else correct.mean,
        rae_all=None if no_sym is None else no_sym.mean,
        rae_symmetric=None if every is None else every.symmetric.mean,
        points=points,
    )
