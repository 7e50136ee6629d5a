"""The losses against cases worked out by hand."""

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from tests.kinds import present
from tests.rotations import to_scipy

from qecnet.algebra import from_rotvec, random_quaternion
from qecnet.nn import cross_entropy, rotation_loss, spread_loss, upright_distance


def test_spread_loss_by_hand(dtype):
    activations = torch.tensor([[0.9, 0.85, 0.1], [0.3, 0.2, 0.4]], dtype=dtype)
    labels = torch.tensor([0, 1])
    # First: 0.1 − 0.05 = 0.05, and 0.1 − 0.8 < 0. Second: 0.1 + 0.1 = 0.2, and 0.1 + 0.2 = 0.3.
    expected = ((0.05**2) + (0.2**2 + 0.3**2)) / 2
    torch.testing.assert_close(spread_loss(activations, labels, margin=0.1), torch.tensor(expected, dtype=dtype))


def test_spread_loss_is_zero_beyond_the_margin(dtype):
    activations = torch.tensor([[0.9, 0.1, 0.2]], dtype=dtype, requires_grad=True)
    loss = spread_loss(activations, torch.tensor([0]), margin=0.5)
    loss.backward()
    assert loss == 0
    assert torch.equal(present(activations.grad), torch.zeros_like(activations))


def test_spread_loss_pulls_the_target_up_and_the_others_down():
    activations = torch.rand(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    labels = torch.tensor([0, 1, 2, 3])
    assert torch.autograd.gradcheck(lambda a: spread_loss(a, labels, 0.9), (activations,))
    spread_loss(activations, labels, 2.0).backward()
    target = torch.nn.functional.one_hot(labels, 5).bool()
    assert (present(activations.grad)[target] < 0).all()
    assert (present(activations.grad)[~target] > 0).all()


def test_rotation_loss_is_the_mean_angle(dtype):
    angles = torch.tensor([[0.0, 0, 0.2], [0.6, 0, 0]], dtype=dtype)
    loss = rotation_loss(from_rotvec(angles), from_rotvec(torch.zeros(2, 3, dtype=dtype)))
    torch.testing.assert_close(loss, torch.tensor(0.4, dtype=dtype))


@pytest.mark.parametrize("smoothing", [0.0, 0.15])
def test_cross_entropy_of_probabilities_is_that_of_the_scores(smoothing, dtype):
    scores = torch.tensor([[2.0, -1.0, 0.5], [30.0, 31.0, 25.0]], dtype=dtype, requires_grad=True)
    labels = torch.tensor([2, 0])
    found = cross_entropy(scores.softmax(-1), labels, smoothing)
    expected = torch.nn.functional.cross_entropy(scores, labels, label_smoothing=smoothing)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*(torch.autograd.grad(loss, scores)[0] for loss in (found, expected)))


@pytest.mark.parametrize("smoothing", [0.0, 0.15])
def test_cross_entropy_divides_activations_by_their_sum(smoothing, dtype):
    activations = torch.rand(4, 5, dtype=dtype, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 3, 3, 1])
    probabilities = activations / activations.sum(-1, keepdim=True)
    target = torch.nn.functional.one_hot(labels, 5) * (1 - smoothing) + smoothing / 5
    by_hand = -(target * probabilities.log()).sum(-1).mean()
    torch.testing.assert_close(cross_entropy(activations, labels, smoothing), by_hand)
    torch.testing.assert_close(cross_entropy(0.3 * activations, labels, smoothing), by_hand)


@pytest.mark.parametrize("smoothing", [0.0, 0.15])
def test_cross_entropy_is_finite_for_confident_errors(smoothing, dtype):
    certain = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]], dtype=dtype, requires_grad=True)
    loss = cross_entropy(certain, torch.tensor([2, 0]), smoothing)
    loss.backward()
    assert loss.isfinite()
    assert present(certain.grad).isfinite().all()


def nearest_of_the_group(poses, turns):
    """SciPy's angle to the nearest of the group's elements; of a thousandth of a turn for all turns."""
    count = 1000 if turns == 0 else turns
    group = Rotation.from_rotvec(2 * np.pi / count * np.arange(count)[:, None] * [0, 0, 1])
    given = to_scipy(poses)
    return torch.tensor([(group.inv() * one).magnitude().min() for one in given])


@pytest.mark.parametrize("turns", [0, 1, 2, 4])
def test_upright_distance_is_to_the_nearest_group_element(turns, dtype):
    """A grid of a thousandth of a turn comes that near to the nearest of all turns, and no nearer than it."""
    poses = random_quaternion((200,), 0, dtype=dtype)
    poses = torch.cat((poses, -poses))
    found = upright_distance(poses, torch.full((400,), turns))
    expected = nearest_of_the_group(poses, turns).to(dtype)
    if turns == 0:
        assert (found <= expected + 1e-6).all()
        assert (expected - found).max() <= 2 * torch.pi / 1000
    else:
        torch.testing.assert_close(found, expected, atol=1e-5 if dtype == torch.float32 else 1e-12, rtol=0)


@pytest.mark.parametrize("turns", [0, 1, 2, 4])
def test_upright_distance_is_zero_only_on_the_group(turns, dtype):
    """Also where each pose has turns of its own; past the half of a step, the next element is nearer."""
    angles = 2 * torch.pi * torch.arange(8, dtype=dtype) / 8
    found = upright_distance(about_z(angles), torch.full((8,), turns))
    step = 2 * torch.pi / turns if turns else 1.0
    off = torch.remainder(angles, step)
    expected = torch.zeros_like(angles) if turns == 0 else torch.minimum(off, step - off)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=0)
    each = upright_distance(about_z(angles)[:, None].expand(8, 2, 4), torch.tensor([turns, 1]).expand(8, 2))
    torch.testing.assert_close(each[:, 0], found, atol=tolerance, rtol=0)


@pytest.mark.parametrize("turns", [0, 1, 2, 4])
def test_the_gradient_of_upright_distance_is_finite_at_the_identity_and_at_half_turns(turns, dtype):
    poses = torch.cat(
        (torch.eye(4, dtype=dtype), -torch.eye(4, dtype=dtype), about_z(torch.tensor([1.0], dtype=dtype)))
    )
    poses.requires_grad_()
    distance = upright_distance(poses, torch.full((9,), turns))
    distance.sum().backward()
    assert distance.isfinite().all()
    assert present(poses.grad).isfinite().all()
    assert (distance[[1, 2, 5, 6]] >= torch.pi - 1e-5).all()  # half turns about x and y, which are never upright


def about_z(angles):
    return from_rotvec(angles[:, None] * torch.tensor([0.0, 0, 1], dtype=angles.dtype))


@pytest.mark.parametrize("loss", [spread_loss, cross_entropy])
def test_wrong_shapes_are_named_in_the_error(loss):
    with pytest.raises(ValueError, match=r"they are \(2, 3\) and \(3,\)"):
        loss(torch.rand(2, 3), torch.tensor([0, 1, 2]))
