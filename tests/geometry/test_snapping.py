"""Snapping: its laws, a plain reference by singular value decompositions, and shapes with and without axes."""

import math
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.geometry.plain_candidates import snap_plain
from torch.nn.functional import normalize

from qecnet.algebra import (
    angular_distance,
    from_rotvec,
    multiply,
    random_quaternion,
    rotate,
    to_matrix,
)
from qecnet.geometry import snap_pose
from qecnet.geometry.snapping import EVIDENCE, alignments, climb, evidence, fourth_moment
from qecnet.testing import assert_equivariant


def random_directions(count, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return normalize(torch.randn(count, 3, generator=generator, dtype=dtype), dim=-1)


def room(scatter=200, seed=0, dtype=torch.float64):
    """Normals along three perpendicular directions, 500, 300 and 200 of them, and some in any direction."""
    walls = torch.eye(3, dtype=dtype).repeat_interleave(torch.tensor([500, 300, 200]), dim=0)
    return torch.cat((walls, random_directions(scatter, seed, dtype)))


def tilt_from(pose, degrees, seed=0):
    axis = random_directions(1, seed, pose.dtype)[0]
    return multiply(from_rotvec(axis * math.radians(degrees)), pose)


def objective(pose, normals, weights):
    return (weights[:, None] * (normals @ to_matrix(pose)).pow(4)).sum()


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_the_naive_iteration(seed):
    normals, weights = (
        room(seed=seed),
        torch.rand(1200, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)),
    )
    pose = tilt_from(torch.tensor([1.0, 0, 0, 0], dtype=torch.float64), 25, seed)
    assert angular_distance(snap_pose(pose, normals, weights), snap_plain(pose, normals, weights)) < 1e-5


def test_axes_of_a_room_are_found_from_a_tilted_pose(dtype):
    pose = random_quaternion((), 3, dtype=dtype)
    normals = rotate(pose, room(0, dtype=dtype))
    start = torch.stack([tilt_from(pose, 20, seed) for seed in range(10)])
    assert angular_distance(snap_pose(start, normals), pose).max() < 1e-3


@given(st.integers(0, 2**32 - 1), st.integers(3, 40))
@settings(max_examples=60, deadline=None)
def test_objective_never_decreases(seed, count):
    normals = random_directions(count, seed)
    weights = torch.rand(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    moment, pose = fourth_moment(normals, weights), random_quaternion((), seed, dtype=torch.float64)
    climbed = [objective(pose, normals, weights)]
    for _ in range(30):
        with patch("qecnet.geometry.snapping._STEPS", 1):
            pose = climb(pose, moment)
        climbed.append(objective(pose, normals, weights))
    values = torch.stack(climbed)
    assert (values.diff() >= -1e-12 * values[-1]).all()
    assert torch.isclose(alignments(pose, moment).trace(), values[-1] / weights.sum())


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_evidence_is_the_curvature_about_each_axis(seed):
    normals, pose = random_directions(30, seed), random_quaternion((), seed, dtype=torch.float64)
    weights, step = torch.full((30,), 1 / 30, dtype=torch.float64), 1e-3
    found = evidence(pose, fourth_moment(normals, weights))
    for axis in range(3):
        about = torch.eye(3, dtype=torch.float64)[axis] * step
        there, here, back = (objective(multiply(pose, from_rotvec(about * k)), normals, weights) for k in (1, 0, -1))
        assert torch.isclose(found[axis], -(there - 2 * here + back) / step**2 / 4, atol=1e-5)


def test_snapping_is_equivariant(dtype):
    pose = tilt_from(random_quaternion((), 1, dtype=dtype), 15)
    normals, weights = rotate(random_quaternion((), 1, dtype=dtype), room(dtype=dtype)), torch.rand(1200, dtype=dtype)
    assert_equivariant(snap_pose, (pose, normals, weights), ("pose", "vectors", "scalars"), "pose")


def test_result_is_the_same_for_either_sign_of_normals():
    pose, normals = random_quaternion((), 1, dtype=torch.float64), room()
    signs = torch.where(torch.arange(1200) % 3 == 0, -1.0, 1.0)[:, None]
    assert torch.equal(snap_pose(pose, normals), snap_pose(pose, normals * signs))


def test_masked_normals_change_nothing(dtype):
    pose, normals = random_quaternion(4, 1, dtype=dtype), room(dtype=dtype)
    weights = torch.rand(1200, dtype=dtype, generator=torch.Generator().manual_seed(0))
    weights[::3] = 0
    before = snap_pose(pose, normals, weights)
    normals[::3] = torch.nan
    assert torch.equal(snap_pose(pose, normals, weights), before)


def test_leading_axes_are_batches(dtype):
    pose = random_quaternion((2, 3), 1, dtype=dtype)
    normals = torch.stack((room(seed=1, dtype=dtype), rotate(random_quaternion((), 5, dtype=dtype), room(dtype=dtype))))
    together = snap_pose(pose, normals[:, None])
    for i in range(2):
        for j in range(3):
            assert angular_distance(together[i, j], snap_pose(pose[i, j], normals[i])) < 1e-5
    assert snap_pose(pose[0, 0], normals).shape == (2, 4)


def test_a_pose_stays_where_normals_show_no_axes(dtype):
    """A sphere, leaves in all directions, and nothing at all."""
    poses = random_quaternion(32, 0, dtype=dtype)
    leaves = random_directions(100, 1, dtype).repeat_interleave(10, dim=0)
    leaves = normalize(leaves + 0.3 * random_directions(1000, 2, dtype), dim=-1)
    for normals in (random_directions(1024, 0, dtype), leaves, torch.zeros(10, 3, dtype=dtype)):
        assert torch.equal(snap_pose(poses, normals), poses)
    assert torch.equal(snap_pose(poses, room(dtype=dtype), torch.zeros(1200, dtype=dtype)), poses)


@pytest.mark.parametrize("kind", ["cylinder", "sheet"])
def test_rotation_about_an_axis_of_revolution_is_kept(dtype, kind):
    up = torch.tensor([0.0, 0, 1], dtype=dtype)
    angles = 2 * torch.pi * torch.rand(800, dtype=dtype, generator=torch.Generator().manual_seed(0))
    wall = torch.stack((angles.cos(), angles.sin(), torch.zeros_like(angles)), dim=-1)
    normals = torch.cat((up.expand(200, 3), wall[: 800 if kind == "cylinder" else 0]))
    pose = from_rotvec(torch.tensor([0.2, -0.1, 1.3], dtype=dtype))
    snapped = snap_pose(pose, normals)
    assert torch.allclose(rotate(snapped, up), up, atol=1e-2 if kind == "cylinder" else 1e-4)
    tilt = torch.acos(rotate(pose, up) @ rotate(snapped, up))
    assert torch.isclose(angular_distance(pose, snapped), tilt, atol=1e-3)  # the smallest rotation, none about `up`


def test_evidence_of_known_shapes():
    pose = torch.tensor([1.0, 0, 0, 0], dtype=torch.float64)
    cube = evidence(pose, fourth_moment(torch.eye(3, dtype=torch.float64)))
    assert torch.allclose(cube, torch.full((3,), 2 / 3, dtype=torch.float64))
    sphere = evidence(random_quaternion(100, 0, dtype=torch.float64), fourth_moment(random_directions(200_000)))
    assert sphere.abs().max() < 0.01 < EVIDENCE


def test_result_is_detached():
    pose, normals = tilt_from(torch.tensor([1.0, 0, 0, 0], dtype=torch.float64), 10), room(20)[::60].requires_grad_()
    assert not snap_pose(pose, normals).requires_grad


def test_shapes_that_do_not_match_are_refused():
    pose = random_quaternion((), 0)
    with pytest.raises(ValueError, match=r"normals have the shape \(7, 2\)"):
        snap_pose(pose, torch.zeros(7, 2))
    with pytest.raises(ValueError, match="one per normal"):
        snap_pose(pose, torch.zeros(7, 3), torch.ones(6))
