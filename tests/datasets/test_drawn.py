"""A new sample each time: never all of a cloud twice, whatever its size."""

import pytest
import torch

from qecnet.datasets import make_shape
from qecnet.datasets.drawn import drawn
from qecnet.geometry import PointCloud, PrepareConfig

CONFIG = PrepareConfig(points=100, frames=50, patches=8, neighbours=9)


def cloud(count, normals=False):
    points = torch.randn(count, 3, generator=torch.Generator().manual_seed(0))
    return PointCloud(points, torch.nn.functional.normalize(points, dim=-1) if normals else None, "cloud")


def draw(shape, seed, keep=0.8):
    return drawn(shape, CONFIG, keep, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("stored", "expected"), [(50, 40), (100, 80), (101, 100), (5000, 100), (10, 9), (9, 9), (5, 5)]
)
def test_how_many_are_drawn(stored, expected):
    assert len(draw(cloud(stored), 0)) == expected


@pytest.mark.parametrize("stored", [50, 100, 200])
def test_two_draws_differ_and_one_seed_repeats(stored):
    first, again, other = (draw(cloud(stored), seed).points for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_normals_stay_with_their_points():
    found = draw(cloud(50, normals=True), 0)
    torch.testing.assert_close(found.normals, torch.nn.functional.normalize(found.points, dim=-1))


def test_a_mesh_is_sampled_anew():
    chair = make_shape("chair", seed=1)
    first, other = draw(chair, 1), draw(chair, 2)
    assert len(first) == len(other) == 100
    assert not torch.equal(first.points, other.points)
