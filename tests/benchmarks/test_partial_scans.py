"""Two partial scans of one thing: what overlap means, and registration at the true scale."""

import pytest
import torch
from benchmarks.pose_baselines.partial import list_methods, measure_overlap, name_overlap
from benchmarks.pose_baselines.registration import ransac, register_views

import qecnet
from qecnet.algebra import angular_distance, from_rotvec, random_quaternion, rotate
from qecnet.datasets import make_shape
from qecnet.geometry import PointCloud

UP = torch.tensor([0.0, 0, 1], dtype=torch.float64)


def test_overlap_is_the_share_of_points_that_are_near():
    line = torch.arange(10)[:, None] * torch.tensor([1.0, 0, 0], dtype=torch.float64)
    assert measure_overlap(PointCloud(line), PointCloud(line[:4] + 0.04), radius=2.0) == pytest.approx(0.4)
    assert [name_overlap(share) for share in (0, 0.25, 0.3, 1)] == ["0-25%", "0-25%", "25-50%", "75-100%"]


def test_registration_finds_the_rotation_between_parts_of_different_size():
    pytest.importorskip("open3d")
    whole = make_shape("chair", 3).sample(8000, torch.Generator().manual_seed(0)).points
    part = whole[whole[:, 2] > whole[:, 2].quantile(0.3)]
    q = random_quaternion((), 5, dtype=torch.float64)
    camera = torch.tensor([9.0, 2, 3], dtype=torch.float64)
    source, target = (
        PointCloud(whole).seen_from(camera),
        PointCloud(rotate(q, part) + 4).seen_from(rotate(q, camera) + 4),
    )
    assert angular_distance(register_views(source, target, 0, ransac), q) < 0.1


def test_a_known_up_leaves_one_angle():
    model = qecnet.load("modelnet10")
    cloud = make_shape("chair", 3).sample(3000, torch.Generator().manual_seed(0))
    q = torch.stack([from_rotvec(0.7 * UP), random_quaternion((), 1, dtype=torch.float64)])
    source, target = (cloud.rotated(one) for one in q)
    found = list_methods(model, q)["modelnet10, known up"](source, target, 0)
    assert torch.allclose(rotate(found, rotate(q[0], UP)), rotate(q[1], UP), atol=1e-5)
