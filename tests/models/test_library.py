"""A library of descriptors: what is found, what is looked at again, and what an interruption leaves."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import qecnet
from qecnet.algebra import angular_distance, multiply, random_quaternion, rotate
from qecnet.datasets import make_shape
from qecnet.formats import write
from qecnet.models import Answer, library
from qecnet.models.library import Library, empty_library, extend, hash_model, read_library, stamps_of

TURN = random_quaternion((), generator=3, dtype=torch.float64)


@pytest.fixture(scope="module")
def model():
    return qecnet.load("modelnet10-paper")


@pytest.fixture
def folder(tmp_path):
    for kind in ("bed", "chair", "toilet"):
        write(tmp_path / f"{kind}.npy", make_shape(kind, 1).sample(700, torch.Generator().manual_seed(0)))
    return tmp_path


def files(folder):
    return sorted(folder.glob("*.npy"))


def made(model, folder, before=None) -> tuple[Library, list[str]]:
    """The folder's library brought up to date, and the names of what was looked at."""
    path, stamps = folder / "index.safetensors", stamps_of(folder, files(folder))
    kept = (before or empty_library(model)).unchanged(stamps)
    seen = [result.name for result in extend(kept, model, folder, stamps, path)]
    return read_library(path), [name.split("/")[-1] for name in seen]


def test_a_shape_finds_itself_turned(model, folder):
    found, _ = made(model, folder)
    chair = make_shape("chair", 1)
    cloud = chair.sample(700, torch.Generator().manual_seed(0))
    query = model.predict(rotate(TURN, cloud.points) + 4)
    first, *others = found.nearest(query)
    assert first.file == "chair.npy"
    assert first.similarity > 0.999
    assert angular_distance(first.rotation, TURN) < np.radians(2)
    assert [one.similarity for one in others] == sorted((one.similarity for one in others), reverse=True)
    assert len(others) == 2
    assert len(found.nearest(query, 1)) == 1


def test_only_what_has_changed_is_looked_at(model, folder):
    first, seen = made(model, folder)
    assert seen == ["bed.npy", "chair.npy", "toilet.npy"]
    again, seen = made(model, folder, first)
    assert seen == []
    assert again.files == first.files
    assert torch.equal(again.descriptors, first.descriptors)
    (folder / "bed.npy").unlink()
    write(folder / "chair.npy", make_shape("chair", 2).sample(500, torch.Generator().manual_seed(0)))
    write(folder / "desk.npy", make_shape("desk", 2).sample(500, torch.Generator().manual_seed(0)))
    last, seen = made(model, folder, again)
    assert seen == ["chair.npy", "desk.npy"]
    assert sorted(last.files) == ["chair.npy", "desk.npy", "toilet.npy"]
    whole, _ = made(model, folder)
    for name in whole.files:
        old, new = (one.descriptors[one.files.index(name)] for one in (whole, last))
        assert torch.allclose(old, new, atol=1e-5)


def test_an_interruption_keeps_what_was_done(model, folder, monkeypatch):
    path, stamps = folder / "index.safetensors", stamps_of(folder, files(folder))
    results = extend(empty_library(model), model, folder, stamps, path)
    next(results)
    next(results)
    results.close()
    assert read_library(path).files == ("bed.npy", "chair.npy")
    _, seen = made(model, folder, read_library(path))
    assert seen == ["toilet.npy"]


def test_it_is_saved_on_the_way(model, folder, monkeypatch):
    monkeypatch.setattr(library, "_SECONDS", -1.0)
    path, stamps = folder / "index.safetensors", stamps_of(folder, files(folder))
    results = extend(empty_library(model), model, folder, stamps, path)
    next(results)
    next(results)
    assert read_library(path).files == ("bed.npy",)


def test_bad_files_are_left_out_and_tried_again(model, folder):
    (folder / "bad.npy").write_bytes(b"nothing")
    first, seen = made(model, folder)
    assert "bad.npy" in seen
    assert "bad.npy" not in first.files
    assert made(model, folder, first)[1] == ["bad.npy"]


def test_an_empty_library_finds_nothing(model, folder):
    query = model.predict(folder / "bed.npy")
    assert empty_library(model).nearest(query) == []


def test_other_weights_have_another_key(model):
    other = qecnet.load("modelnet10-paper")
    assert hash_model(other) == hash_model(model)
    with torch.no_grad():
        next(other.network.parameters()).add_(1e-3)
    assert hash_model(other) != hash_model(model)
    other = qecnet.load("modelnet10-paper")
    other.config = replace(other.config, points=500)
    assert hash_model(other) != hash_model(model)


def test_many_are_searched_as_numpy_would():
    generator = torch.Generator().manual_seed(0)
    descriptors = torch.nn.functional.normalize(torch.randn(5000, 64, generator=generator), dim=-1)
    poses = random_quaternion(5000, generator=1)
    labels = torch.randint(0, 2, (5000,), generator=generator)
    names = tuple(str(n) for n in range(5000))
    many = Library("m", "k", ("a", "b"), names, torch.zeros(5000, 2, dtype=torch.int64), descriptors, labels, poses)
    both = random_quaternion(2, generator=2, dtype=torch.float64)
    query = Answer("q", ("a", "b"), torch.tensor([0.9, 0.1]), both, descriptors[7], torch.zeros(3), 0.0)
    found = many.nearest(query, 5)
    expected = np.argsort(-(descriptors.numpy() @ descriptors[7].numpy()))[:5]
    assert [int(one.file) for one in found] == expected.tolist()
    for one in found:
        row = int(one.file)
        turned = multiply(one.rotation, poses[row].double())
        assert angular_distance(turned, both[labels[row]]) < 1e-5, "turns the neighbour into the query"


def test_what_is_no_library_is_said(tmp_path):
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="damaged"):
        read_library(tmp_path / "x.safetensors")
