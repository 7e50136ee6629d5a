"""Which turns training takes for one; the declared groups themselves are measured in tests/evaluation."""

import pytest
from tests.kinds import present

from qecnet.datasets.modelnet import OFFICIAL
from qecnet.datasets.symmetry import SYMMETRIES, training_symmetry

TEN, FORTY = OFFICIAL["modelnet10"], OFFICIAL["modelnet40"]


def test_training_ignores_the_azimuth_of_the_other_thirty_classes():
    others = FORTY.keys() - TEN.keys()
    assert len(others) == 30
    assert {training_symmetry(name) for name in others} == {0}


@pytest.mark.parametrize("name", TEN)
def test_training_uses_the_declared_symmetry_of_modelnet10(name):
    assert training_symmetry(name) == present(SYMMETRIES[name].order) >= 1


@pytest.mark.parametrize(
    ("name", "turns"), [("chair", 1), ("table", 2), ("night_stand", 4), ("bottle", 0), ("no such class", 1)]
)
def test_training_symmetry_by_class(name, turns):
    assert training_symmetry(name) == turns
