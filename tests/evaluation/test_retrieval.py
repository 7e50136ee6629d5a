"""Retrieval: scores by hand, descriptors without learning that no rotation changes, and a measurement."""

import numpy as np
import pytest
import torch
from tests.kinds import recording

from qecnet.algebra import random_quaternion
from qecnet.datasets import make_furniture, make_shape
from qecnet.evaluation import (
    Measurement,
    RetrievalResult,
    measure_retrieval,
    read_result,
    retrieval,
    summarize,
    write_result,
)
from qecnet.evaluation.retrieval import count_pair_features, count_principal_cells, score_retrieval
from qecnet.geometry import PrepareConfig, prepare
from qecnet.models import Model
from qecnet.nn import QECConfig, QECNet

CONFIG = PrepareConfig(400, 48, "centred")


def unit(*angles):
    return np.stack([np.cos(np.radians(angles)), np.sin(np.radians(angles))], -1).astype(np.float32)


def test_separable_classes_have_a_score_of_one():
    label = np.array([0, 0, 1, 1, 1])
    scores = score_retrieval(label, unit(0, 1, 90, 91, 92))
    assert scores.map_micro == scores.map_macro == scores.nearest_micro == scores.nearest_macro == 1
    assert scores.queries == 5


def test_scores_are_those_by_hand():
    """On a line, 0° A, 1° B, 3° A, 90° B, 91° B: the first A finds B, then A."""
    scores = score_retrieval(np.array([0, 1, 0, 1, 1]), unit(0, 1, 3, 90, 91))
    precision = [1 / 2, (1 / 3 + 2 / 4) / 2, 1 / 2, (1 + 2 / 3) / 2, (1 + 2 / 3) / 2]
    assert scores.map_micro == pytest.approx(np.mean(precision))
    a, b = np.mean([precision[0], precision[2]]), np.mean([precision[1], *precision[3:]])
    assert scores.map_macro == pytest.approx((a + b) / 2)
    assert scores.nearest_micro == pytest.approx(2 / 5)
    assert scores.nearest_macro == pytest.approx((0 + 2 / 3) / 2)


def test_single_shape_of_a_class_is_not_a_query():
    scores = score_retrieval(np.array([0, 0, 1]), unit(0, 1, 0.5))
    assert scores.queries == 2
    assert scores.map_micro == scores.map_macro == pytest.approx(1 / 2)
    with pytest.raises(ValueError, match="no two test shapes share a class"):
        score_retrieval(np.array([0, 1]), unit(0, 1))


@pytest.mark.parametrize("count", [count_principal_cells, count_pair_features])
def test_histogram_is_invariant_to_rotation(count):
    cloud = make_shape("chair", 0).sample(400, torch.Generator().manual_seed(0))
    points = prepare(cloud, CONFIG, torch.Generator().manual_seed(0))
    before, after = count(points), count(points.rotated(random_quaternion((), 1, dtype=torch.float64)))
    assert before @ before == pytest.approx(1)
    assert before @ after > 0.98, "only points on the border of a bin may change it"


def test_a_measurement_is_written_and_read_and_resumes(tmp_path, monkeypatch):
    torch.manual_seed(0)
    dataset = make_furniture(10, seed=3)
    network = QECNet(QECConfig(len(dataset.classes), frames=48, patches=8, neighbours=4, capsules=4))
    model = Model("small", network, dataset.classes, CONFIG, settings={"keep": 0.8})
    shapes = [n for n, item in enumerate(dataset.items("test")) if item.label < 2]
    given = Measurement(model, dataset, tmp_path, shapes=shapes, workers=1, progress=False)
    result = measure_retrieval(given)
    assert result.shapes == len(shapes)
    assert [*result.methods] == ["model", "PCA-normalised occupancy", "point pair features"]
    assert all(0 <= one.map_micro <= 1 and one.queries == len(shapes) for one in result.methods.values())
    write_result(tmp_path, result)
    assert read_result(tmp_path, RetrievalResult) == result
    assert "point pair features" in summarize(result).to_markdown()
    calls: list[tuple] = []
    monkeypatch.setattr(retrieval, "_describe_shape", recording(retrieval._describe_shape, calls))
    stored = tmp_path / "retrieval-strict.rows"
    stored.write_bytes(stored.read_bytes()[:-100])  # interrupted in the last shape
    assert measure_retrieval(given) == result
    assert [given[2] for given in calls] == shapes[-1:]
