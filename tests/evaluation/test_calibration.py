"""The error of calibration, by hand; the whole measure is tried in tests/cli/test_calibration_command.py."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from qecnet.datasets import make_furniture
from qecnet.evaluation import Measurement, write_calibration
from qecnet.evaluation.calibration import _held_out
from qecnet.evaluation.metrics import score_calibration
from qecnet.files import read_tensors
from qecnet.geometry import PrepareConfig
from qecnet.models import Model
from qecnet.nn import Calibration, QECConfig, QECNet, save_network
from qecnet.training.validate import held_out


def test_the_expected_error_by_hand():
    sure = np.array([0.9, 0.9, 0.9, 0.9, 0.6, 0.6])
    probabilities = np.stack([sure, 1 - sure], -1)
    labels = np.array([0, 0, 0, 1, 0, 1])
    row = score_calibration(probabilities, labels)
    assert row.ece == pytest.approx((4 * 0.15 + 2 * 0.1) / 6)  # 0.9 against 3/4, 0.6 against 1/2
    assert row.accuracy == pytest.approx(4 / 6)
    assert row.confidence == pytest.approx(0.8)
    assert row.nll == pytest.approx(-(3 * np.log(0.9) + np.log(0.1) + np.log(0.6) + np.log(0.4)) / 6)
    assert [count for *_, count in row.reliability] == [2, 4]


def test_full_confidence_has_a_bin_and_a_finite_likelihood():
    row = score_calibration(np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([0, 1]))
    assert row.ece == 0.5
    assert np.isfinite(row.nll)


def test_held_out_shapes_are_those_of_training(tmp_path):
    dataset, further = make_furniture(10), make_furniture(5)
    further = replace(further, splits={"train": further.items("train")[:20]})
    model = Model("m", QECNet(QECConfig(10)), dataset.classes, PrepareConfig(), settings={"validation": 0.2})
    labels = torch.tensor([item.label for item in dataset.items("train")])
    items = [*dataset.items("train"), *further.items("train")]
    for unlabelled, groups in ((None, labels), (further, torch.cat((labels, torch.full((20,), -1))))):
        expected = [(items[n], int(groups[n])) for n in held_out(groups, 0.2)[1].tolist()]
        assert _held_out(Measurement(model, dataset, tmp_path), unlabelled) == expected
    model = Model("m", QECNet(QECConfig(10)), dataset.classes, PrepareConfig(), settings={"validation": 0.0})
    with pytest.raises(ValueError, match="without a held-out part"):
        _held_out(Measurement(model, dataset, tmp_path), None)


def test_write_calibration_changes_only_the_calibration(tmp_path):
    path = tmp_path / "weights.safetensors"
    save_network(path, QECNet(QECConfig(2)), ["a", "b"], {"settings": {"seed": 3}, "temperature": 1.0})
    before, about = read_tensors(path)
    write_calibration(path, Calibration(0.5, 2.0, 0.25, -1.0))
    after, now = read_tensors(path)
    temperatures = {"temperature": 0.5, "orientation_temperature": 2.0}
    assert now == about | temperatures | {"temperature_slope": 0.25, "orientation_temperature_slope": -1.0}
    assert all(torch.equal(after[name], before[name]) for name in before)
