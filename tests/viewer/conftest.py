"""Fixtures for the viewer: models, which take a second to load, the process that reads uploads, and requests."""

import pytest

import qecnet
from qecnet.viewer.limits import Limits
from qecnet.viewer.reader import UploadReader
from qecnet.viewer.request import CorruptionLevels, Request, RequestedShape
from qecnet.viewer.session import ModelPool, Session
from qecnet.viewer.uploads import UploadStore

IDENTITY = (1.0, 0.0, 0.0, 0.0)


@pytest.fixture(scope="session")
def pool():
    return ModelPool(qecnet.load("modelnet10-features"))


@pytest.fixture(scope="session")
def paper():
    return ModelPool(qecnet.load("modelnet10-paper"))


@pytest.fixture(scope="session")
def reader():
    reader = UploadReader()
    yield reader
    reader.close()


@pytest.fixture
def store():
    return UploadStore(Limits())


@pytest.fixture
def session(pool, store):
    return Session("key", pool, store)


@pytest.fixture
def request_of():
    def make(rotation=IDENTITY, kind="chair", upload=None, corruption=None, layers=(), **more):
        shape = RequestedShape(tuple(rotation), kind if upload is None else None, 1, upload)
        return Request(1, shape, corruption or CorruptionLevels(2_000), layers=tuple(layers), **more)

    return make
