"""Fixtures for the viewer: models, which take a second to load, the process that reads uploads, and requests."""

import pytest

import qecnet
from qecnet.viewer.limits import Limits
from qecnet.viewer.reader import UploadReader
from qecnet.viewer.request import CorruptionLevels, GalleryShape, Request, RotatedShape, UploadedShape
from qecnet.viewer.session import Networks, Session
from qecnet.viewer.uploads import UploadStore

IDENTITY = (1.0, 0.0, 0.0, 0.0)


@pytest.fixture(scope="session")
def networks():
    return Networks(qecnet.load("modelnet10"))


@pytest.fixture(scope="session")
def paper():
    return Networks(qecnet.load("modelnet10-paper"))


@pytest.fixture(scope="session")
def reader():
    reader = UploadReader()
    yield reader
    reader.close()


@pytest.fixture
def store():
    return UploadStore(Limits())


@pytest.fixture
def session(networks, store):
    return Session("key", networks, store)


@pytest.fixture
def request_of():
    def make(rotation=IDENTITY, kind="chair", upload=None, corruption=None, layers=(), **more):
        source = GalleryShape(kind, 1) if upload is None else UploadedShape(upload)
        shape = RotatedShape(source, tuple(rotation))
        return Request(1, shape, corruption or CorruptionLevels(2_000), layers=frozenset(layers), **more)

    return make
