"""What the tests of the viewer share: models, which take a second to load, and wishes."""

import pytest

import qecnet
from qecnet.viewer.reader import Reader
from qecnet.viewer.reply import Respondent
from qecnet.viewer.wish import Made, Spoil, Turned, Wish

UPRIGHT = (1.0, 0.0, 0.0, 0.0)


@pytest.fixture(scope="session")
def respondent():
    return Respondent(qecnet.load("modelnet10"))


@pytest.fixture(scope="session")
def paper():
    return Respondent(qecnet.load("modelnet10-paper"))


@pytest.fixture(scope="session")
def reader():
    """Its process takes seconds to begin."""
    reader = Reader()
    yield reader
    reader.close()


@pytest.fixture
def wish():
    def make(number=1, turn=UPRIGHT, kind="chair", seed=1, spoil=None, second=None, layers=(), compare=False):
        shape = Turned(Made(kind, seed), tuple(turn))
        return Wish(number, shape, spoil or Spoil(2_000), second, frozenset(layers), compare)

    return make
