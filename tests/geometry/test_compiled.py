"""Compiled operators of the geometry: the same choices, sums and poses as in NumPy and PyTorch, also at hard places."""

from typing import Any

import numpy as np
import pytest
import torch

from qecnet.algebra import angular_distance, random_quaternion
from qecnet.compiled import call, use_compiled_operators
from qecnet.geometry import farthest_points, find_resting_ups, fit_normals, local_frames, snap_pose
from qecnet.geometry._support import centre_cloud
from qecnet.geometry.normals import planes_within


@pytest.fixture(autouse=True)
def restored():
    assert use_compiled_operators()
    yield
    use_compiled_operators()


def both(function):
    """What it gives with compiled operators, and without."""
    results = []
    for on in (True, False):
        assert use_compiled_operators(on) == on
        results.append(function())
    return results


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def ball(count, seed=0):
    return torch.randn(count, 3, generator=generator(seed), dtype=torch.float64)


CLOUDS = {
    "one point": torch.ones(1, 3, dtype=torch.float64),
    "two points": torch.tensor([[0.0, 0, 0], [1, 2, 3]], dtype=torch.float64),
    "a full leaf": ball(16),
    "one more than a leaf": ball(17),
    "one less than full leaves": ball(319),
    "ball": ball(700),
    "repeated": ball(90).repeat(3, 1),
    "grid, full of ties": torch.cartesian_prod(*[torch.arange(7.0, dtype=torch.float64)] * 3),
    "plane": ball(300) * torch.tensor([1.0, 1, 0], dtype=torch.float64),
    "line": ball(200) * torch.tensor([1.0, 0, 0], dtype=torch.float64),
    "huge": 1e12 * ball(300),
    "tiny": 1e-12 * ball(300),
    "far stray": torch.cat((ball(300), torch.tensor([[1e9, 0, 0]], dtype=torch.float64))),
}


@pytest.mark.parametrize("name", CLOUDS)
def test_farthest_points_are_the_same(name, dtype):
    points = CLOUDS[name].to(dtype)
    for count in {1, len(points) // 2 + 1, len(points)}:
        assert torch.equal(*both(lambda count=count: farthest_points(points, count)))


@pytest.mark.parametrize("name", CLOUDS)
def test_plane_fits_are_the_same_up_to_rounding(name, dtype):
    cloud = centre_cloud(CLOUDS[name].to(dtype))
    found, expected = both(lambda: planes_within(cloud, cloud.points, 0.5, dtype))
    clear = (expected.tilt < 1e-3) & (found.tilt < 1e-3)
    assert np.array_equal(found.valid[clear], expected.valid[clear])
    cosines = np.abs((found.normals * expected.normals).sum(1))[clear & expected.valid]
    np.testing.assert_allclose(cosines, 1, atol=1e-4 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("method", ["flare", "centred"])
def test_frames_are_the_same_up_to_rounding(bumpy, method):
    (found, valid), (expected, as_before) = both(lambda: local_frames(bumpy, method=method))
    assert torch.equal(valid, as_before)
    assert angular_distance(found, expected).max() < 1e-6


def test_normals_do_not_depend_on_the_number_of_threads(bumpy):
    points, threads = bumpy.float(), torch.get_num_threads()
    try:
        results = []
        for count in (1, 3):
            torch.set_num_threads(count)
            results.append(fit_normals(points, radius=0.3)[0])
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*results)


@pytest.mark.parametrize("name", ["two points", "ball", "grid, full of ties", "plane", "line", "huge", "tiny"])
def test_resting_faces_are_the_same(name):
    found, expected = both(lambda: find_resting_ups(CLOUDS[name]))
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("leading", [(), (5,), (2, 3)])
def test_snapped_poses_are_the_same(leading):
    pose = random_quaternion((*leading, 4), generator=generator(), dtype=torch.float64)
    normals = torch.nn.functional.normalize(
        torch.eye(3, dtype=torch.float64).repeat(40, 1) + 0.1 * ball(120, seed=1), dim=-1
    )
    for of_each in (normals, normals.expand(*leading, 1, 120, 3)):
        found, expected = both(lambda of_each=of_each: snap_pose(pose, of_each))
        assert angular_distance(found, expected).max() < 1e-9


def test_without_normals_a_pose_is_unchanged():
    pose = random_quaternion((6,), generator=generator(), dtype=torch.float64)
    found, expected = both(lambda: snap_pose(pose, torch.zeros(10, 3, dtype=torch.float64)))
    assert torch.equal(found, expected)
    assert torch.equal(found, pose)


def test_numpy_and_torch_scalars_are_accepted():
    points = ball(100)
    expected = farthest_points(points, 5)
    numbers: list[Any] = [np.int64, torch.tensor]
    for number in numbers:
        assert torch.equal(farthest_points(points, number(5)), expected)
    normals, _ = fit_normals(points, radius=1.0)
    radius: Any = np.float32(1.0)
    assert torch.equal(fit_normals(points, radius=radius)[0], normals)


def test_operators_refuse_unsupported_arguments():
    wrong: list[Any] = [np.ones((4, 4))[:, 1], torch.ones(4, 4)[:, 1], "text", np.int64(3)]
    for bad in wrong:
        with pytest.raises(TypeError, match="is no argument of an operator"):
            call("climb", 0, 0, 0, 0, bad, bad)
