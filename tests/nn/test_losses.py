"""The losses against cases worked out by hand."""

import pytest
import torch

from qecnet.algebra import from_rotvec
from qecnet.nn import cross_entropy, rotation_loss, spread_loss, spread_margin


def test_spread_loss_by_hand(dtype):
    activations = torch.tensor([[0.9, 0.85, 0.1], [0.3, 0.2, 0.4]], dtype=dtype)
    labels = torch.tensor([0, 1])
    # First: 0.1 − 0.05 = 0.05, and 0.1 − 0.8 < 0. Second: 0.1 + 0.1 = 0.2, and 0.1 + 0.2 = 0.3.
    expected = ((0.05**2) + (0.2**2 + 0.3**2)) / 2
    torch.testing.assert_close(spread_loss(activations, labels, margin=0.1), torch.tensor(expected, dtype=dtype))


def test_spread_loss_is_zero_once_the_margin_is_kept(dtype):
    activations = torch.tensor([[0.9, 0.1, 0.2]], dtype=dtype, requires_grad=True)
    loss = spread_loss(activations, torch.tensor([0]), margin=0.5)
    loss.backward()
    assert loss == 0
    assert torch.equal(activations.grad, torch.zeros_like(activations))


def test_spread_loss_pulls_the_target_up_and_the_others_down():
    activations = torch.rand(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    labels = torch.tensor([0, 1, 2, 3])
    assert torch.autograd.gradcheck(lambda a: spread_loss(a, labels, 0.9), (activations,))
    spread_loss(activations, labels, 2.0).backward()
    target = torch.nn.functional.one_hot(labels, 5).bool()
    assert (activations.grad[target] < 0).all()
    assert (activations.grad[~target] > 0).all()


def test_margin_grows_from_first_to_last():
    assert [spread_margin(p) for p in (-1, 0, 0.5, 1, 2)] == pytest.approx([0.2, 0.2, 0.55, 0.9, 0.9])


def test_rotation_loss_is_the_mean_angle(dtype):
    angles = torch.tensor([[0.0, 0, 0.2], [0.6, 0, 0]], dtype=dtype)
    loss = rotation_loss(from_rotvec(angles), from_rotvec(torch.zeros(2, 3, dtype=dtype)))
    torch.testing.assert_close(loss, torch.tensor(0.4, dtype=dtype))


def test_cross_entropy_is_that_of_the_logits(dtype):
    logits = torch.tensor([[2.0, -1.0, 0.5]], dtype=dtype)
    labels = torch.tensor([2])
    torch.testing.assert_close(
        cross_entropy(torch.sigmoid(logits), labels), torch.nn.functional.cross_entropy(logits, labels)
    )
    certain = torch.tensor([[1.0, 0.0, 0.0]], dtype=dtype)
    assert cross_entropy(certain, labels).isfinite()


@pytest.mark.parametrize("loss", [spread_loss, cross_entropy])
def test_wrong_shapes_are_named(loss):
    with pytest.raises(ValueError, match=r"they are \(2, 3\) and \(3,\)"):
        loss(torch.rand(2, 3), torch.tensor([0, 1, 2]))
