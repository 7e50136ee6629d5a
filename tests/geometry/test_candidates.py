"""Candidate poses: known shapes, hard clouds, a plain reference, and that the set rotates with the shape."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.geometry.plain_candidates import resting_plain
from torch.nn.functional import normalize

from qecnet.algebra import from_rotvec, multiply, random_quaternion, rotate
from qecnet.geometry import farthest_points, find_axis_ups, find_resting_ups, fit_normals, propose_poses
from qecnet.geometry._hull import resting_directions

UP = torch.tensor([0.0, 0, 1], dtype=torch.float64)


def box(sizes, count=1000, seed=0):
    """Points and outward normals, (count, 3) each, on the surface of a box; the same number on each side."""
    generator = torch.Generator().manual_seed(seed)
    points = 2 * torch.rand(count, 3, generator=generator, dtype=torch.float64) - 1
    rows, normals = torch.arange(count), torch.zeros(count, 3, dtype=torch.float64)
    normals[rows, rows % 3] = torch.where(rows % 2 == 0, 1.0, -1.0).double()
    points = torch.where(normals != 0, normals, points)
    corners = torch.cartesian_prod(*torch.tensor([[-1.0, 1]] * 3, dtype=torch.float64))
    points[:8] = torch.where(normals[:8] != 0, normals[:8], corners)
    return points * torch.tensor(sizes, dtype=torch.float64), normals


def stool():
    """A tilted stool: a seat and three legs that lean outwards, so that no resting side has a wall above it."""
    generator = torch.Generator().manual_seed(0)
    seat = box((0.6, 0.5, 0.05), 800)[0] + torch.tensor([0, 0, 0.8], dtype=torch.float64)
    along = torch.rand(200, 1, generator=generator, dtype=torch.float64)
    along[0] = 1
    feet = torch.tensor([[0.7, 0.0, 0], [-0.4, 0.6, 0], [-0.4, -0.6, 0]], dtype=torch.float64)
    legs = [along * foot + (1 - along) * torch.tensor([0, 0, 0.75], dtype=torch.float64) for foot in feet]
    return torch.cat((seat, *legs))


def ups_of(candidates):
    return rotate(candidates.poses[candidates.valid], UP.to(candidates.poses))


def nearest_angle(ups, direction):
    """Degrees between a direction and the nearest of (C, 3) up directions."""
    return float(torch.rad2deg(torch.acos((ups.double() @ direction.double()).clamp(-1, 1).max())))


def set_distance(ups, others):
    """The largest distance from a direction in one set to the nearest one in the other."""
    distances = torch.cdist(ups.double(), others.double())
    return float(torch.maximum(distances.amin(0).max(), distances.amin(1).max()))


def prepare(points):
    """Farthest points with their normals and weights, as a network reads them."""
    points = points[farthest_points(points, 1024)]
    normals, valid = fit_normals(points, radius=0.1 * float((points - points.mean(0)).norm(dim=-1).max()))
    return points, normals, valid.to(points)


def test_a_box_rests_on_its_six_sides_the_largest_first():
    ups = find_resting_ups(box((3.0, 2.0, 1.0))[0])
    assert len(ups) >= 6
    axes = torch.tensor([2, 2, 1, 1, 0, 0])
    assert torch.allclose(ups[:6].abs(), torch.eye(3, dtype=torch.float64)[axes], atol=0.02)
    assert torch.allclose(ups[0], -ups[1], atol=0.02)


def test_a_stool_can_stand_on_its_feet():
    pose = random_quaternion((), 0, dtype=torch.float64)
    points = rotate(pose, stool())
    assert nearest_angle(find_resting_ups(points), rotate(pose, UP)) < 1


def test_resting_directions_agree_with_the_naive_version(bumpy, modelnet):
    for points in (bumpy[:300], stool(), box((1.0, 1.5, 2.0), 300)[0], *(p[:300] for p in modelnet)):
        array = (points - points.mean(0)).numpy()
        array = array / np.linalg.norm(array, axis=1).max()
        found, (plain, steadiness) = resting_directions(array, 8), resting_plain(array)
        settled = np.abs(np.diff(steadiness, prepend=np.inf, append=-np.inf)).min() > 1e-4
        if settled:  # otherwise ties are in either order
            assert np.allclose(found, plain, atol=1e-9)
        assert np.linalg.norm(found[:, None] - plain, axis=-1).min(0)[:6].max() < 1e-9


def test_furniture_has_its_up_direction_among_its_candidates(modelnet):
    for number, points in enumerate(modelnet):
        pose = random_quaternion((), number, dtype=torch.float64)
        assert nearest_angle(ups_of(propose_poses(*prepare(rotate(pose, points)))), rotate(pose, UP)) < 3


def test_axes_are_found_where_nothing_rests():
    """A box with a ball on each side rests on balls only."""
    ball = normalize(torch.randn(300, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64), dim=-1)
    points, normals = box((1.0, 0.7, 0.5), 2000)
    offsets = 1.5 * torch.cat((torch.eye(3), -torch.eye(3))).double()
    positions = torch.cat((points, (offsets[:, None] + 0.4 * ball).flatten(0, 1)))
    pose = random_quaternion((), 2, dtype=torch.float64)
    ups = find_axis_ups(rotate(pose, positions), rotate(pose, torch.cat((normals, ball.repeat(6, 1)))))
    for axis in torch.eye(3, dtype=torch.float64):
        assert nearest_angle(ups, rotate(pose, axis)) < 2
        assert nearest_angle(ups, rotate(pose, -axis)) < 2


@pytest.mark.parametrize("seed", range(4))
def test_set_of_candidates_rotates_with_the_shape(modelnet, bumpy, seed, dtype):
    turn = random_quaternion((), seed, dtype=torch.float64)
    for points in (*modelnet[seed::2], bumpy, stool()):
        positions, normals, weights = prepare(points)
        before = propose_poses(positions.to(dtype), normals.to(dtype), weights.to(dtype))
        after = propose_poses(
            rotate(turn, positions).to(dtype) + 3,
            rotate(turn, normals).to(dtype),
            weights.to(dtype),
        )
        tolerance = 1e-6 if dtype == torch.float64 else 1e-3
        assert set_distance(rotate(turn.to(dtype), ups_of(before)), ups_of(after)) < tolerance


def test_order_and_azimuth_rotate_with_a_shape_without_symmetry(bumpy):
    normals, valid = fit_normals(bumpy, radius=0.25)
    walls = torch.where(
        torch.arange(2000)[:, None] % 2 == 0, rotate(from_rotvec(UP), torch.eye(3).double())[0], normals
    )
    turn = random_quaternion((), 1, dtype=torch.float64)
    for n in (normals, walls):
        before = propose_poses(bumpy, n, valid.double())
        after = propose_poses(rotate(turn, bumpy), rotate(turn, n), valid.double())
        assert torch.equal(before.valid, after.valid)
        aligned = (multiply(turn, before.poses) * after.poses).sum(-1).abs()
        assert aligned[before.valid].min() > 1 - 1e-9


def test_candidates_are_distinct_best_first_and_padded(modelnet):
    positions, normals, weights = prepare(modelnet[1])
    found = propose_poses(positions, normals, weights)
    assert found.poses.shape == (24, 4)
    count = int(found.valid.sum())
    assert found.valid[:count].all()
    ups = ups_of(found)
    assert torch.triu(ups @ ups.mT, diagonal=1).max() < np.cos(np.radians(4))
    assert torch.equal(found.poses[count:], torch.tensor([[1.0, 0, 0, 0]]).double().expand(24 - count, 4))
    assert torch.equal(ups[0], rotate(found.poses[0], UP))
    assert set_distance(find_resting_ups(positions)[:1], ups[:1]) < 1e-9


def test_masked_normals_change_nothing(bumpy):
    normals, _ = fit_normals(bumpy, radius=0.25)
    weights = torch.rand(2000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights[::3] = 0
    before = propose_poses(bumpy, normals, weights)
    normals[::3] = torch.nan
    assert torch.equal(propose_poses(bumpy, normals, weights).poses, before.poses)


HARD = {
    "triangle": torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 2, 0]]),
    "tetrahedron": torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 3]]),
    "repeated triangle": torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 2, 0]]).repeat(50, 1),
    "flat grid": torch.cartesian_prod(torch.arange(20.0), torch.arange(30.0), torch.zeros(1)),
    "almost on a line": torch.stack((torch.arange(50.0), torch.arange(50) % 2 * 0.01, torch.zeros(50)), -1),
    "almost flat": box((1.0, 1.0, 1e-5))[0],
    "thin": box((1.0, 1.0, 1e-3))[0],
    "tiny": box((1e-12, 2e-12, 3e-12))[0],
    "far away": box((1.0, 2.0, 3.0))[0] + 1e6,
    "solid grid": torch.cartesian_prod(*[torch.arange(6.0)] * 3),
    "half of a box": box((1.0, 2.0, 3.0))[0][box((1.0, 2.0, 3.0))[0][:, 1] > 0.3],
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("known", [True, False], ids=["normals", "no normals"])
def test_every_cloud_off_a_line_has_candidates(name, known, dtype):
    points = HARD[name].double()
    for seed in range(3):
        turned = rotate(random_quaternion((), seed, dtype=torch.float64), points).to(dtype)
        normals = normalize(turned - turned.mean(0), dim=-1) if known else torch.zeros_like(turned)
        candidates = propose_poses(turned, normals)
        assert candidates.poses.isfinite().all()
        assert candidates.valid.sum() >= 4
        assert torch.allclose(candidates.poses.norm(dim=-1), torch.ones(24, dtype=dtype))


def test_a_sheet_stands_on_its_sides_and_edges(dtype):
    pose = random_quaternion((), 5, dtype=torch.float64)
    ups = find_resting_ups(rotate(pose, HARD["flat grid"].double()).to(dtype))
    assert set_distance(ups[:2], rotate(pose, torch.stack((UP, -UP)))) < 1e-3
    edges = torch.tensor([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0]], dtype=torch.float64)
    assert set_distance(ups[2:], rotate(pose, edges)) < 1e-2


def test_a_line_has_two_ends_and_a_point_nothing():
    line = torch.arange(20.0)[:, None] * torch.tensor([1.0, 2, 2])
    assert set_distance(find_resting_ups(line), torch.tensor([[1.0, 2, 2], [-1, -2, -2]]) / 3) < 1e-6
    assert propose_poses(line, torch.zeros(20, 3)).valid.any()
    point = torch.ones(10, 3)
    assert not propose_poses(point, torch.zeros(10, 3)).valid.any()


@given(st.integers(0, 2**32 - 1), st.integers(3, 12), st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_small_clouds_of_repeated_and_coplanar_points_have_candidates(seed, count, size):
    points = torch.from_numpy(np.random.default_rng(seed).integers(0, size + 1, (count, 3)).astype(np.float64))
    spread = torch.linalg.matrix_rank(points - points.mean(0))
    found = propose_poses(points, torch.zeros_like(points)).valid.sum()
    assert found >= 4 if spread >= 2 else found >= (2 if spread else 0)


def test_values_that_are_not_finite_and_shapes_that_do_not_match_are_refused(bumpy):
    with pytest.raises(ValueError, match="1 of 2000 are not finite"):
        find_resting_ups(torch.where(torch.arange(2000)[:, None] == 3, torch.nan, bumpy))
    with pytest.raises(ValueError, match="unknown normals as zeros"):
        propose_poses(bumpy, torch.full_like(bumpy, torch.nan))
    with pytest.raises(ValueError, match=r"normals have the shape \(5, 3\)"):
        propose_poses(bumpy, torch.zeros(5, 3))
