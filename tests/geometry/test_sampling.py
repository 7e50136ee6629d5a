"""Laws of choosing points."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qecnet.algebra import random_quaternion, rotate
from qecnet.datasets import make_shape
from qecnet.geometry import PointCloud, farthest_points, random_points, sample_points


def farthest_points_naive(points, count, start):
    """The definition: look at every point and every chosen one, each time."""
    chosen = [start]
    while len(chosen) < count:
        distances = torch.cdist(points, points[chosen]).amin(1)
        distances[chosen] = -1
        chosen.append(int(distances.argmax()))
    return torch.tensor(chosen)


@given(st.integers(1, 60), st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_farthest_points_are_the_greedy_choice(count, seed):
    points = torch.rand(60, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    start = int((points - points.mean(0)).norm(dim=-1).argmax())
    assert torch.equal(farthest_points(points, count), farthest_points_naive(points, count, start))


def test_farthest_points_start_at_the_farthest_point_and_are_invariant_to_rotation(bumpy):
    chosen = farthest_points(bumpy, 100)
    assert chosen[0] == (bumpy - bumpy.mean(0)).norm(dim=-1).argmax()
    turn = random_quaternion((1,), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert torch.equal(farthest_points(7 * rotate(turn, bumpy) + 5, 100), chosen)


def test_farthest_points_do_not_depend_on_the_order(bumpy):
    order = torch.randperm(len(bumpy), generator=torch.Generator().manual_seed(2))
    assert torch.equal(order[farthest_points(bumpy[order], 200)], farthest_points(bumpy, 200))


def test_first_of_many_farthest_points_are_the_few(bumpy, dtype):
    points = bumpy.to(dtype)
    assert torch.equal(farthest_points(points, 300)[:50], farthest_points(points, 50))


def test_farthest_points_take_repeats_last_and_each_point_once():
    points = torch.tensor([[0.0, 0, 0], [0, 0, 0], [1, 0, 0], [1, 0, 0], [0, 3, 0]])
    chosen = farthest_points(points, 5)
    assert len(points[chosen[:3]].unique(dim=0)) == 3
    assert sorted(chosen.tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_farthest_points_at_any_scale(bumpy, dtype, scale):
    chosen = farthest_points((bumpy * scale).to(dtype), 64)
    apart = torch.cdist(bumpy[chosen], bumpy[chosen]).fill_diagonal_(9).min()
    assert apart > 0.15


def test_random_points_are_distinct_and_depend_on_the_generator(bumpy):
    first, again, other = (random_points(bumpy, 500, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert len(first.unique()) == 500
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda p: farthest_points(p, 5), "5 points were requested from a cloud of 4"),
        (lambda p: random_points(p, 0, torch.Generator()), "0 points were requested"),
        (lambda p: farthest_points(p / 0, 2), "4 of 4 are not finite"),
        (lambda p: farthest_points(p[None], 2), r"shape \(1, 4, 3\)"),
    ],
)
def test_bad_requests_give_a_one_sentence_error(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call(torch.eye(4, 3))


def cloud(count, normals=False):
    points = torch.randn(count, 3, generator=torch.Generator().manual_seed(0))
    return PointCloud(points, torch.nn.functional.normalize(points, dim=-1) if normals else None, "cloud")


def sample(shape, seed, keep=0.8):
    return sample_points(shape, 100, torch.Generator().manual_seed(seed), keep)


@pytest.mark.parametrize(
    ("stored", "expected"), [(50, 40), (100, 80), (101, 100), (5000, 100), (10, 9), (9, 9), (5, 5)]
)
def test_number_of_sampled_points(stored, expected):
    assert len(sample(cloud(stored), 0)) == expected


@pytest.mark.parametrize("stored", [50, 100, 200])
def test_two_samples_differ_and_one_seed_repeats(stored):
    first, again, other = (sample(cloud(stored), seed).points for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_normals_stay_with_their_points():
    found = sample(cloud(50, normals=True), 0)
    torch.testing.assert_close(found.normals, torch.nn.functional.normalize(found.points, dim=-1))


def test_samples_of_a_mesh_have_different_points():
    chair = make_shape("chair", seed=1)
    first, other = sample(chair, 1), sample(chair, 2)
    assert len(first) == len(other) == 100
    assert not torch.equal(first.points, other.points)
