"""Patches are those that farthest point sampling and a kd-tree choose, cloud by cloud."""

import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree
from tests.geometry.test_sampling import farthest_points_naive

from qecnet.algebra import random_quaternion, rotate
from qecnet.geometry import farthest_points
from qecnet.nn.patches import choose_patches


def clouds(count, points=300, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    positions = torch.nn.functional.normalize(torch.randn(count, points, 3, generator=generator), dim=-1)
    return positions.to(dtype), torch.rand(count, points, generator=generator) < 0.9


def choose_patches_plainly(positions, valid, count, size, start=None):
    """One cloud: centre positions (P, 3), neighbours (P, K) and present (P, K)."""
    usable = valid.nonzero()[:, 0]
    neighbours, present = torch.zeros(count, size, dtype=torch.int64), torch.zeros(count, size, dtype=torch.bool)
    centres = positions[:1].expand(count, 3).clone()
    if len(usable):
        among, reached = positions[usable], min(count, len(usable))
        if start is None:
            chosen = farthest_points(among, reached)
        else:
            chosen = farthest_points_naive(among.double(), reached, int(start * len(usable)))
        near = min(size, len(usable))
        points = positions[usable].double().numpy()
        _, found = cKDTree(points).query(points[chosen], k=np.arange(1, near + 1))
        centres[: len(chosen)] = positions[usable[chosen]]
        neighbours[: len(chosen), :near] = usable[torch.from_numpy(found)]
        present[: len(chosen), :near] = True
    return centres, neighbours, present


@pytest.mark.parametrize("start", [None, 0.0, 0.37, 0.999])
def test_agrees_with_the_naive_version(dtype, start):
    positions, valid = clouds(20, dtype=dtype)
    valid[3:] &= torch.rand(17, 300, generator=torch.Generator().manual_seed(1)) < torch.linspace(0, 1, 17)[:, None]
    valid[4] = False
    valid[4, [7, 70, 270]] = True
    found = choose_patches(positions, valid, 64, 9, start)
    for cloud in range(20):
        centres, neighbours, present = choose_patches_plainly(positions[cloud], valid[cloud], 64, 9, start)
        assert torch.equal(found.present[cloud], present)
        assert torch.equal(found.neighbours[cloud], neighbours)
        assert torch.equal(found.centres[cloud], centres)


def test_a_patch_begins_with_its_centre(dtype):
    positions, valid = clouds(2, dtype=dtype)
    found = choose_patches(positions, valid, 64, 9)
    for cloud in range(2):
        assert torch.equal(positions[cloud, found.neighbours[cloud, :, 0]], found.centres[cloud])


def test_choice_is_invariant_to_rotation():
    positions, valid = clouds(3, dtype=torch.float64)
    q = random_quaternion((3, 1), torch.Generator().manual_seed(5), dtype=torch.float64)
    before, after = choose_patches(positions, valid, 64, 9), choose_patches(rotate(q, positions), valid, 64, 9)
    assert torch.equal(before.neighbours, after.neighbours)


def test_other_starts_give_other_patches():
    positions, valid = clouds(1)
    chosen = {tuple(choose_patches(positions, valid, 8, 4, s).neighbours.flatten().tolist()) for s in (0.1, 0.5, 0.9)}
    assert len(chosen) == 3


def test_invalid_frames_may_have_any_value():
    positions, valid = clouds(3)
    dirty = torch.where(valid[..., None], positions, torch.nan)
    plain, found = choose_patches(positions, valid, 20, 9), choose_patches(dirty, valid, 20, 9)
    assert torch.equal(plain.neighbours, found.neighbours)
    assert torch.equal(plain.centres, found.centres)


def test_whole_is_one_patch_of_all_points():
    positions = clouds(1, 64)[0]
    found = choose_patches(positions, torch.ones(1, 64, dtype=torch.bool), 1, 64)
    assert sorted(found.neighbours[0, 0].tolist()) == list(range(64))
