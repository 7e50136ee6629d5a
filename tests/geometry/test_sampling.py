"""Laws of choosing points."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qecnet.algebra import random_quaternion, rotate
from qecnet.geometry import farthest_points, random_points, spaced_points


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
    start = seed % 60
    assert torch.equal(farthest_points(points, count, start), farthest_points_naive(points, count, start))


def test_farthest_points_start_far_out_and_turn_with_the_cloud(bumpy):
    chosen = farthest_points(bumpy, 100)
    assert chosen[0] == (bumpy - bumpy.mean(0)).norm(dim=-1).argmax()
    turn = random_quaternion((1,), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert torch.equal(farthest_points(7 * rotate(turn, bumpy) + 5, 100), chosen)


def test_farthest_points_do_not_depend_on_the_order(bumpy):
    order = torch.randperm(len(bumpy), generator=torch.Generator().manual_seed(2))
    assert torch.equal(order[farthest_points(bumpy[order], 200)], farthest_points(bumpy, 200))


def test_the_first_of_many_are_the_few(bumpy, dtype):
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


def test_spaced_points_are_apart_and_leave_no_gap(bumpy):
    for generator in (None, torch.Generator().manual_seed(0)):
        chosen = bumpy[spaced_points(bumpy, 0.2, generator)]
        distances = torch.cdist(chosen, chosen).fill_diagonal_(9)
        assert distances.min() >= 0.2
        assert torch.cdist(bumpy, chosen).amin(1).max() < 0.2


def test_spaced_points_keep_what_is_exactly_apart():
    line = torch.arange(8.0)[:, None] * torch.tensor([[1.0, 0, 0]])
    assert len(spaced_points(line, 1.0)) == 8


def test_spaced_points_turn_with_the_cloud(bumpy):
    turn = random_quaternion((1,), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert torch.equal(spaced_points(rotate(turn, bumpy), 0.15), spaced_points(bumpy, 0.15))


def test_random_points_are_distinct_and_the_generators(bumpy):
    first, again, other = (random_points(bumpy, 500, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert len(first.unique()) == 500
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda p: farthest_points(p, 5), "5 points were asked of a cloud of 4"),
        (lambda p: farthest_points(p, 2, start=4), "start is 4"),
        (lambda p: spaced_points(p, 0.0), "spacing is 0.0"),
        (lambda p: random_points(p, 0, torch.Generator()), "0 points were asked"),
        (lambda p: farthest_points(p / 0, 2), "4 of 4 are not finite"),
        (lambda p: farthest_points(p[None], 2), r"shape \(1, 4, 3\)"),
    ],
)
def test_bad_requests_are_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call(torch.eye(4, 3))
