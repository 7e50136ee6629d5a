"""Which turns training takes for one; the declared groups themselves are measured in tests/evaluation."""

import pytest
from tests.kinds import present

from qecnet.datasets.modelnet import OFFICIAL
from qecnet.datasets.symmetry import SYMMETRIES, training_symmetry

TEN, FORTY = OFFICIAL["modelnet10"], OFFICIAL["modelnet40"]


def test_of_the_thirty_classes_that_face_any_way_no_turn_is_known():
    others = FORTY.keys() - TEN.keys()
    assert len(others) == 30
    assert {training_symmetry(name) for name in others} == {0}


@pytest.mark.parametrize("name", TEN)
def test_of_modelnet10_the_declared_turns_are_known(name):
    assert training_symmetry(name) == present(SYMMETRIES[name].order) >= 1


@pytest.mark.parametrize(
    ("name", "turns"), [("chair", 1), ("table", 2), ("night_stand", 4), ("bottle", 0), ("no such class", 1)]
)
def test_known_turns_by_name(name, turns):
    assert training_symmetry(name) == turns
