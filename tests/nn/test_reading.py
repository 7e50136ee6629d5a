"""What a frame sees of its neighbours, by hand and turned, and what a reading makes of it, in plain loops."""

import pytest
import torch
from scipy.spatial import cKDTree
from tests.kinds import present

from qecnet.algebra import from_rotvec, multiply, random_quaternion, rotate
from qecnet.nn import Capsules
from qecnet.nn.reading import (
    NEIGHBOUR_VALUES,
    Reading,
    gather_neighbours,
    max_over_neighbours,
    nearest_points,
    view_neighbours,
)


def capsules(clouds, points, dtype, seed=0, features=None):
    generator = torch.Generator().manual_seed(seed)
    positions = torch.randn(clouds, points, 3, generator=generator, dtype=dtype)
    poses = random_quaternion((clouds, points), generator, dtype=dtype)[..., None, :]
    carried = None if features is None else torch.randn(clouds, points, features, generator=generator, dtype=dtype)
    return Capsules(positions, poses, torch.ones(clouds, points, 1, dtype=dtype), carried)


def moved(given, turn, shift):
    """All of it turned about the origin by (clouds, 4) and shifted."""
    positions = rotate(turn[:, None], given.positions) + shift
    return Capsules(positions, multiply(turn[:, None, None], given.poses), given.activations, given.features)


def trained(dtype, given=5, hidden=16, features=7, reach=0.5):
    """A reading in evaluation mode, whose normalisation has something to do."""
    torch.manual_seed(0)
    reading = Reading(given, hidden, features, reach).to(dtype)
    for parameter in (reading.normalised.running_mean, reading.normalised.weight, reading.normalised.bias):
        torch.nn.init.uniform_(present(parameter), 0.1, 0.5)
    return reading.eval()


def test_neighbour_description_by_hand(dtype):
    """The centre stands at (1, 0, 0) and looks along the world's y axis: its x is y, its y is −x."""
    turned = torch.tensor([0, 0, torch.pi / 2], dtype=dtype), torch.tensor([torch.pi, 0, 0], dtype=dtype)
    quarter, over = (from_rotvec(vector) for vector in turned)
    centre = Capsules.primary(torch.tensor([[[1.0, 0, 0]]], dtype=dtype), quarter[None, None])
    others = Capsules.primary(
        torch.tensor([[[1.0, 2, 0], [1, 0, 3], [1, 0, 0]]], dtype=dtype),
        torch.stack((torch.eye(4, dtype=dtype)[0], over, quarter))[None],
    )
    found = view_neighbours(centre, others, torch.tensor([[[0, 1, 2]]]), reach=0.5)
    ahead = [*(4, 0, 0), 4, *(0, 1, 0, -1, 0, 0, 0, 0, 1), 0]
    above = [*(0, 0, 6), 6, *(0, -1, 0, -1, 0, 0, 0, 0, -1), -1]
    here = [*(0, 0, 0), 0, *(1, 0, 0, 0, 1, 0, 0, 0, 1), 0]
    expected = torch.tensor([[[ahead, above, here]]], dtype=dtype)
    assert expected.shape[-1] == NEIGHBOUR_VALUES
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_neighbour_description_is_invariant_to_rotation_and_translation(dtype):
    others = capsules(2, 9, dtype)
    neighbours = nearest_points(others.positions[:, :4], others.positions, 5)
    turn, shift = random_quaternion((2,), 3, dtype=dtype), torch.tensor([0.3, -2.0, 1.0], dtype=dtype)
    found = []
    for given in (others, moved(others, turn, shift)):
        centres = Capsules(given.positions[:, :4], given.poses[:, :4], given.activations[:, :4])
        found.append(view_neighbours(centres, given, neighbours, reach=0.2))
    torch.testing.assert_close(*found, atol=1e-4 if dtype == torch.float32 else 1e-9, rtol=0)


def test_reading_is_the_maximum_of_two_layers_over_neighbours(dtype):
    reading, others, centres = trained(dtype), capsules(2, 9, dtype, features=5), capsules(2, 3, dtype, seed=1)
    neighbours = nearest_points(centres.positions, others.positions, 4)
    found, seen = reading(centres, others, neighbours), view_neighbours(centres, others, neighbours, 0.5)
    assert found.positions is centres.positions
    assert found.poses is centres.poses
    norm = reading.normalised
    for cloud in range(2):
        for centre in range(3):
            said = []
            for place, other in enumerate(neighbours[cloud, centre]):
                hidden = reading.seen(seen[cloud, centre, place]) + reading.carried(others.features[cloud, other])
                said.append(reading.mixed.weight @ hidden.relu())
            most = torch.stack(said).amax(0)
            normal = (most - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias
            torch.testing.assert_close(found.features[cloud, centre], normal.relu())


def test_reading_is_invariant_to_rotation_order_and_duplicates(dtype):
    reading, others = trained(dtype), capsules(2, 9, dtype, features=5)
    neighbours = nearest_points(others.positions, others.positions, 4)
    plain = reading(others, others, neighbours).features
    again = torch.cat((neighbours[..., 2:], neighbours, neighbours[..., :1]), -1)
    turned = moved(others, random_quaternion((2,), 3, dtype=dtype), 0.7)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-9
    torch.testing.assert_close(reading(others, others, again).features, plain, atol=tolerance, rtol=0)
    torch.testing.assert_close(reading(turned, turned, neighbours).features, plain, atol=tolerance, rtol=0)


def test_gradient_of_features_is_finite_for_coincident_points(dtype):
    reading, others = trained(dtype).train(), capsules(2, 6, dtype, features=5)
    others = Capsules(torch.zeros_like(others.positions), others.poses, others.activations, others.features)
    features = present(others.features).requires_grad_()
    everyone = torch.arange(6).expand(2, 6, 6)
    reading(others, others, everyone).features[..., 0].sum().backward()
    assert present(features.grad).isfinite().all()
    assert all(p.grad.isfinite().all() for p in reading.parameters())


def test_neighbours_are_those_of_scipys_tree_in_any_order(dtype):
    points = capsules(3, 50, dtype).positions
    found = nearest_points(points[:, :20], points, 6)
    for cloud in range(3):
        _, expected = cKDTree(points[cloud].numpy()).query(points[cloud, :20].numpy(), 6)
        assert [set(row) for row in found[cloud].tolist()] == [set(row) for row in expected.tolist()]


def test_close_points_far_from_the_origin_are_distinguished():
    """Where |p|² + |q|² − 2 p·q would have lost what they differ by."""
    points = torch.tensor([[[100.0, 0, 0], [100.003, 0, 0], [100.001, 0, 0], [100.002, 0, 0]]])
    assert [set(nearest_points(points[:, :1], points, count).flatten().tolist()) for count in (2, 3)] == [
        {0, 2},
        {0, 2, 3},
    ]


@pytest.mark.parametrize("count", [1, 4])
def test_maximum_and_its_gradient_are_those_of_amax(count, dtype):
    x = torch.randn(2, 3, count, 5, generator=torch.Generator().manual_seed(0), dtype=dtype, requires_grad=True)
    assert torch.equal(max_over_neighbours(x), x.amax(-2))
    assert torch.equal(
        *(torch.autograd.grad(found.square().sum(), x)[0] for found in (max_over_neighbours(x), x.amax(-2)))
    )


@pytest.mark.parametrize("clouds", [3, 0])
def test_gather_neighbours_is_indexing(clouds):
    x = torch.arange(clouds * 20.0).view(clouds, 5, 4)
    neighbours = torch.randint(5, (clouds, 2, 3), generator=torch.Generator().manual_seed(0))
    found = gather_neighbours(x, neighbours)
    assert found.shape == (clouds, 2, 3, 4)
    assert all(torch.equal(found[cloud], x[cloud][neighbours[cloud]]) for cloud in range(clouds))


def test_capsules_without_features_are_refused(dtype):
    plain = capsules(2, 3, dtype)
    with pytest.raises(ValueError, match="these capsules carry no features to read"):
        trained(dtype)(plain, plain, torch.zeros(2, 3, 1, dtype=torch.long))
    with pytest.raises(ValueError, match=r"features has shape \(2, 4, 5\); .* must be \(2, 3, 5\)"):
        Capsules(plain.positions, plain.poses, plain.activations, torch.zeros(2, 4, 5))
