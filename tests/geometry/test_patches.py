"""Pooling frames into patches."""

import pytest
import torch

from qecnet.algebra import random_quaternion, rotate
from qecnet.geometry import farthest_points, patches


def test_the_papers_first_layer(bumpy, dtype):
    points = bumpy[farthest_points(bumpy, 512)].to(dtype)
    pooled = patches(points)
    assert pooled.centres.shape == (64,)
    assert pooled.neighbours.shape == pooled.mask.shape == (64, 9)
    assert pooled.mask.all()
    assert torch.equal(pooled.neighbours[:, 0], pooled.centres)
    assert torch.equal(pooled.centres, farthest_points(points, 64))
    nearest = torch.cdist(points[pooled.centres], points).topk(9, largest=False).indices
    assert torch.equal(pooled.neighbours.sort(dim=1).values, nearest.sort(dim=1).values)


def test_patches_turn_with_the_cloud(bumpy):
    turn = random_quaternion((1,), generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    for before, after in zip(patches(bumpy), patches(rotate(turn, bumpy)), strict=True):
        assert torch.equal(before, after)


def test_invalid_frames_are_in_no_patch(bumpy):
    valid = torch.rand(2000, generator=torch.Generator().manual_seed(0)) < 0.5
    pooled = patches(bumpy, valid, count=100, size=12)
    assert pooled.mask.all()
    assert valid[pooled.centres].all()
    assert valid[pooled.neighbours].all()


def test_what_is_missing_is_masked(bumpy):
    valid = torch.zeros(2000, dtype=torch.bool)
    valid[[7, 70, 700]] = True
    pooled = patches(bumpy, valid, count=5, size=9)
    assert pooled.mask.sum(1).tolist() == [3, 3, 3, 0, 0]
    assert set(pooled.neighbours[pooled.mask].tolist()) == {7, 70, 700}
    assert (pooled.neighbours[~pooled.mask] == 0).all()
    nothing = patches(bumpy, torch.zeros(2000, dtype=torch.bool))
    assert not nothing.mask.any()


def test_one_patch_of_everything(bumpy):
    pooled = patches(bumpy[:64], count=1, size=64)
    assert sorted(pooled.neighbours[0].tolist()) == list(range(64))


@pytest.mark.parametrize(
    ("points", "arguments", "sentence"),
    [
        (torch.eye(4, 3), {}, "cloud has 4 points; a patch needs at least 9"),
        (torch.eye(4, 3), {"count": 0, "size": 2}, "0 patches of 2"),
        (torch.full((9, 3), torch.inf), {}, "9 of 9 are not finite"),
    ],
)
def test_bad_requests_are_one_sentence(points, arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        patches(points, **arguments)
