"""An answer of a bulk run does not depend on the files that are asked with it, to the last bit."""

import pytest
import torch

import qecnet
from qecnet.datasets import FURNITURE_CLASSES, make_shape
from qecnet.formats import write
from qecnet.models import BATCH, Failure


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """A full batch of clouds of several sizes, one of them bad."""
    folder = tmp_path_factory.mktemp("clouds")
    for number in range(BATCH):
        generator = torch.Generator().manual_seed(number)
        cloud = make_shape(FURNITURE_CLASSES[number % 10], number).sample(200 + 40 * number, generator)
        write(folder / f"{number:02d}.npy", cloud)
    (folder / "05.npy").write_bytes(b"bad")
    return sorted(map(str, folder.iterdir()))


@pytest.mark.parametrize("name", ["modelnet10-features", "modelnet10-paper", "upright"])
@pytest.mark.parametrize("up", [None, (0.0, 0.1, 1.0)])
def test_answer_does_not_depend_on_the_batch(paths, name, up):
    model = qecnet.load(name)
    together = dict(zip(paths, model.predict_batch(paths, up=up), strict=True))
    assert [path for path in paths if isinstance(together[path], Failure)] == [paths[5]]
    for some in (paths[::-1], paths[:3], paths[5:6], paths[7:8]):
        for path, answer in zip(some, model.predict_batch(some, up=up), strict=True):
            expected = together[path]
            assert answer.name == expected.name == path
            if not isinstance(expected, Failure):
                for field in ("activations", "poses", "descriptor", "centre"):
                    assert torch.equal(getattr(answer, field), getattr(expected, field)), (path, field)


def test_answers_are_those_of_predict(paths):
    model = qecnet.load("modelnet10")
    (found,), expected = model.predict_batch(paths[:1]), model.predict(paths[0])
    assert not isinstance(found, Failure)
    assert torch.allclose(found.activations, expected.activations, atol=1e-5)
    assert torch.allclose(found.poses, expected.poses, atol=1e-4)
