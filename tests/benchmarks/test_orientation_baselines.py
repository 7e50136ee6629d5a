"""IT-Net and PointNetLK: what they align, what their training compares, and that they are measured on pairs."""

import copy
import dataclasses

import pytest
import torch
from benchmarks.baselines import ORIENTATION
from benchmarks.pose_baselines.learned import measure_learned
from tests.nn.clouds import random_points

from qecnet.algebra import angular_distance, conjugate, from_rotvec, multiply, random_quaternion, rotate
from qecnet.datasets import make_furniture
from qecnet.geometry import OrientedPoints, PrepareConfig
from qecnet.models import Model
from qecnet.nn import create_network, load_network, save_network, upright_distance
from qecnet.testing import equivariance_error


@pytest.fixture(params=ORIENTATION)
def kind(request):
    return request.param


def small(kind, dtype=torch.float32, classes=3):
    torch.manual_seed(0)
    return create_network(kind, classes, width=0.1, reads=64, frames=64).to(dtype)


def blob(dtype, clouds=4, points=64, seed=0):
    return random_points(clouds, points, dtype, seed, missing=0)


def test_training_samples_a_new_rotation_each_time(kind, dtype):
    """In training, poses are errors, which the trainer compares with upright; all classes have the same."""
    network, cloud = small(kind, dtype).train(), blob(dtype)
    torch.manual_seed(0)
    first, again = (network(cloud).poses for _ in range(2))
    assert not torch.equal(first, again)
    assert torch.equal(first, first[:, :1].expand_as(first))
    error = upright_distance(first[:, 0], torch.ones(4, dtype=torch.long))
    assert (error > 0.01).all()


def test_every_parameter_gets_a_gradient(kind):
    network = small(kind).train()
    prediction = network(blob(torch.float32))
    error = upright_distance(prediction.poses[:, 0], torch.ones(4, dtype=torch.long)).sum()
    (error - prediction.activations[:, 0].log().sum()).backward()
    assert all((p.grad != 0).any() and p.grad.isfinite().all() for p in network.parameters())


@pytest.mark.parametrize("value", [torch.nan, 1e30])
def test_masked_points_change_nothing(kind, dtype, value):
    network, cloud = small(kind, dtype).eval(), random_points(3, 60, dtype, missing=0.3)
    other = dataclasses.replace(cloud, positions=cloud.positions.clone())
    other.positions[~cloud.valid] = value
    before, after = network(cloud), network(other)
    assert torch.equal(before.activations, after.activations)
    assert torch.equal(before.poses, after.poses)


@pytest.mark.parametrize("there", [0, 1, 2])
def test_nearly_empty_cloud_has_a_prediction(kind, there):
    network, cloud = small(kind).train(), blob(torch.float32)
    cloud.valid[0] = False
    cloud.valid[0, 5 : 5 + there] = True
    prediction = network(cloud)
    upright_distance(prediction.poses[:, 0], torch.ones(4, dtype=torch.long)).sum().backward()
    assert prediction.poses.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in network.parameters())


def test_neither_network_is_equivariant(dtype):
    """What they predict of a rotated cloud is not what they predict of the cloud, rotated: they have to learn it."""
    network, cloud = small("it_net", dtype).eval(), blob(dtype)

    def poses(points):
        return network(dataclasses.replace(cloud, positions=points)).poses

    assert equivariance_error(poses, [cloud.positions], ["points"], "poses", trials=3) > 0.1

    aligner, template, present = small("pointnetlk", dtype).eval(), blob(dtype, seed=1).positions, cloud.valid

    def align(source):
        return aligner.align(source, present, template, present)

    # Equivariant, it would turn a rotated source back first: found(g source) = found(source) g⁻¹.
    given = random_quaternion((), 1, dtype=dtype).expand(4, 4)
    found = align(rotate(given[:, None], cloud.positions))
    assert (angular_distance(found, multiply(align(cloud.positions), conjugate(given))) > 0.1).any()


def test_it_net_learns_the_poses_of_one_shape():
    torch.manual_seed(0)
    network = create_network("it_net", 1, width=0.1, reads=64, frames=64)
    cloud = blob(torch.float32, clouds=1)
    batch = OrientedPoints.stack([cloud.select(0)] * 16)
    optimizer = torch.optim.Adam(network.parameters(), 3e-3)
    errors = []
    for _ in range(60):
        optimizer.zero_grad()
        error = upright_distance(network(batch).poses[:, 0], torch.ones(16, dtype=torch.long)).mean()
        error.backward()
        optimizer.step()
        errors.append(error.item())
    assert sum(errors[-5:]) < 0.6 * sum(errors[:5])


def test_pointnetlk_undoes_a_small_rotation_of_the_same_points(dtype):
    """Lucas-Kanade needs no training near the solution: features that tell points apart are enough."""
    network, cloud = small("pointnetlk", dtype).eval(), blob(dtype)
    given = from_rotvec(torch.tensor([[0.1, 0, 0], [0, -0.12, 0], [0, 0, 0.15], [0.05, 0.05, 0.05]], dtype=dtype))
    template, present = cloud.positions, cloud.valid
    found = network.align(rotate(given[:, None], template), present, template, present)
    before = angular_distance(given, torch.eye(4, dtype=dtype)[0].expand(4, 4))
    assert (angular_distance(found, conjugate(given)) < 0.5 * before).all()


def test_pointnetlk_has_no_pose_of_a_single_cloud(tmp_path):
    network = small("pointnetlk").eval()
    assert not network.has_poses
    identity = torch.tensor([1.0, 0, 0, 0]).expand(4, 3, 4)
    assert torch.equal(network(blob(torch.float32)).poses, identity)
    save_network(tmp_path / "w", network, ["a", "b", "c"], {})
    assert not load_network(tmp_path / "w")[0].has_poses


def test_it_net_has_poses_and_keeps_its_weights(tmp_path):
    network, cloud = small("it_net").eval(), blob(torch.float32)
    save_network(tmp_path / "w", network, ["a", "b", "c"], {})
    again = load_network(tmp_path / "w")[0]
    assert network.has_poses
    assert again.has_poses
    assert torch.equal(again(cloud).poses, network(cloud).poses)


def test_pairs_are_those_of_the_methods_without_learning():
    dataset = make_furniture(5)
    model = Model("lk", small("pointnetlk", classes=10).eval(), dataset.classes, PrepareConfig(200, 64, "none"))
    found = measure_learned(model, dataset, pairs_per_class=1)
    assert [*found.same_instance] == ["PointNetLK"]
    errors = found.same_instance["PointNetLK"].all_classes
    assert errors is not None
    assert errors.count == 10
    other = Model("it", small("it_net", classes=10).eval(), dataset.classes, PrepareConfig(200, 64, "none"))
    with pytest.raises(ValueError, match="does not align pairs"):
        measure_learned(other, dataset, pairs_per_class=1)


def test_rotations_are_drawn_from_the_seeded_generator(kind):
    network, cloud = small(kind).train(), blob(torch.float32)
    poses = []
    for _ in range(2):
        torch.manual_seed(3)
        poses.append(copy.deepcopy(network)(cloud).poses)
    torch.testing.assert_close(*poses)
