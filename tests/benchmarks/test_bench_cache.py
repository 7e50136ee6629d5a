"""The `.npy` files that the frame cache is compared with: the same clouds, and damage is found."""

from dataclasses import fields

import numpy as np
import pytest
import torch
from benchmarks.bench_cache import gather, open_arrays, some, write_arrays

from qecnet.datasets import frame_cache, make_furniture
from qecnet.geometry import OrientedPoints, PrepareConfig


@pytest.fixture
def cache(tmp_path):
    config = PrepareConfig(points=200, frames=16, candidates=True)
    found = frame_cache(some(make_furniture(2), 3), "train", tmp_path, config, subsamplings=2, workers=1)
    write_arrays(tmp_path, found, "key")
    return found


@pytest.mark.parametrize("by", ["file", "record"])
def test_clouds_are_those_of_the_cache(cache, tmp_path, by):
    batch = torch.tensor([2, 0, 1, 2]), torch.tensor([0, 1, 1, 1])
    ours, theirs = cache.points(*batch), gather(open_arrays(tmp_path, "key", by), *batch)
    assert all(torch.equal(getattr(ours, f.name), getattr(theirs, f.name)) for f in fields(OrientedPoints))


@pytest.mark.parametrize("by", ["file", "record"])
def test_damage_is_found(cache, tmp_path, by):
    np.load(tmp_path / "frames.npy", mmap_mode="r+")[1, 1, 3] += 1
    with pytest.raises(ValueError, match="damaged"):
        open_arrays(tmp_path, "key", by)


def test_records_of_other_shapes_are_refused(cache, tmp_path):
    with pytest.raises(ValueError, match="other records"):
        open_arrays(tmp_path, "another key", "file")
