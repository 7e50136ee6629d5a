"""The weighted mean: Theorem 1, agreement with SciPy and with the plain formula, and weights of zero."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rotations import from_scipy, to_scipy

from qecnet.algebra import angular_distance, checking, from_rotvec, multiply, random_quaternion, weighted_mean
from qecnet.testing import assert_equivariant


@pytest.fixture
def votes(dtype, generator):
    return random_quaternion((6, 9), generator, dtype=dtype), torch.rand(6, 9, generator=generator, dtype=dtype)


def test_mean_satisfies_theorem_1(votes):
    """Left-equivariant, and invariant under permutations."""
    assert_equivariant(weighted_mean, votes, takes=("poses", "scalars"), gives="pose")


def test_agrees_with_scipy(votes):
    q, w = votes
    mean = weighted_mean(q, w).double()
    for i in range(len(q)):
        expected = to_scipy(q[i]).mean(w[i].double().numpy())
        assert angular_distance(mean[i], from_scipy(expected)) <= 1e-4


def test_agrees_with_the_formula(votes):
    q, w = (x.double() for x in votes)
    moment = torch.einsum("bk,bki,bkj->bij", w, q, q)
    expected = torch.linalg.eigh(moment)[1][..., -1]
    assert angular_distance(weighted_mean(*votes).double(), expected).max() <= 1e-4


def test_mean_is_invariant_to_signs(votes, generator):
    q, w = votes
    signs = torch.randint(0, 2, q.shape[:-1], generator=generator) * 2 - 1
    assert torch.equal(weighted_mean(q * signs[..., None], w), weighted_mean(q, w))


def test_a_single_rotation_is_its_own_mean(rotations, tolerance):
    assert angular_distance(weighted_mean(rotations[:, None]), rotations).max() <= 4 * tolerance
    copies = rotations[:, None].expand(-1, 5, -1)
    assert angular_distance(weighted_mean(copies), rotations).max() <= 4 * tolerance


def test_mean_of_two_rotations_is_halfway(dtype, tolerance):
    q = from_rotvec(torch.tensor([[0.0, 0, 0.4], [0, 0, 1.2]], dtype=dtype))
    expected = from_rotvec(torch.tensor([0.0, 0, 0.8], dtype=dtype))
    assert angular_distance(weighted_mean(q, torch.ones(2, dtype=dtype)), expected) <= 4 * tolerance


@pytest.mark.parametrize("count", [9, 4096])
def test_weightless_elements_drop_out_bit_for_bit(count, dtype, generator):
    q = random_quaternion((5, count), generator, dtype=dtype)
    w = torch.rand(5, count, generator=generator, dtype=dtype)
    keep = torch.rand(count, generator=generator) < 0.7
    w = torch.where(keep, w, 0.0)
    mean = weighted_mean(q, w)
    assert torch.equal(mean, weighted_mean(q[:, keep], w[:, keep]))
    padded = torch.cat((q, random_quaternion((5, 100), generator, dtype=dtype)), 1)
    assert torch.equal(mean, weighted_mean(padded, torch.nn.functional.pad(w, (0, 100))))
    q[:, ~keep] = float("nan")
    assert torch.equal(mean, weighted_mean(q, w))


def test_batch_of_one_equals_a_row_of_the_batch(votes):
    q, w = votes
    assert torch.equal(weighted_mean(q[2:3], w[2:3])[0], weighted_mean(q, w)[2])
    assert torch.equal(weighted_mean(q[2], w[2]), weighted_mean(q, w)[2])


def test_zero_weights_give_the_identity(votes):
    q, w = votes
    q.requires_grad_()
    mean = weighted_mean(q, torch.zeros_like(w))
    assert torch.equal(mean, torch.eye(4, dtype=q.dtype)[:1].expand(6, 4))
    mean.sum().backward()
    assert torch.equal(q.grad, torch.zeros_like(q))


def test_mean_is_invariant_to_the_scale_of_weights(votes):
    q, w = votes
    for factor in (2.0**-40, 2.0**40):
        assert torch.equal(weighted_mean(q, w * factor), weighted_mean(q, w))


@pytest.mark.parametrize("case", ["general", "two equal", "antipodes", "one of weight zero", "around a half turn"])
def test_gradients(case):
    q = random_quaternion(5, 3, dtype=torch.float64)
    w = torch.tensor([0.5, 1.0, 2.0, 0.1, 0.3], dtype=torch.float64)
    if case == "two equal":
        q[1] = q[0]
    if case == "antipodes":
        q[1] = -q[0]
    if case == "one of weight zero":
        q, w = q[1:], w[1:] * torch.tensor([1.0, 1.0, 1.0, 0.0])
        assert torch.autograd.gradcheck(lambda q: weighted_mean(q, w), (q.requires_grad_(),))
        return
    if case == "around a half turn":
        q = from_rotvec(torch.tensor([[torch.pi, 0, 0]]) + 0.1 * torch.eye(5, 3, dtype=torch.float64))
    assert torch.autograd.gradcheck(weighted_mean, (q.requires_grad_(), w.requires_grad_()))


@settings(deadline=None, max_examples=40)
@given(shape=st.lists(st.integers(1, 3), max_size=3), count=st.integers(1, 20), seed=st.integers(0, 2**31))
def test_close_rotations_average_in_any_shape(shape, count, seed):
    generator = torch.Generator().manual_seed(seed)
    centre = random_quaternion(shape, generator, dtype=torch.float64)
    offsets = 0.2 * torch.randn(*shape, count, 3, generator=generator, dtype=torch.float64)
    q = multiply(centre[..., None, :].expand(*shape, count, 4), from_rotvec(offsets))
    w = torch.rand(*shape, count, generator=generator, dtype=torch.float64) + 0.1
    mean = weighted_mean(q, w)
    assert mean.shape == centre.shape
    # The mean lies no farther from each rotation than those lie from each other.
    spread = angular_distance(q[..., :, None, :], q[..., None, :, :]).amax((-1, -2))
    assert (angular_distance(mean[..., None, :], q).amax(-1) <= spread + 1e-9).all()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: weighted_mean(torch.ones(2, 3)), r"q has shape \(2, 3\)"),
        (lambda: weighted_mean(torch.ones(5, 0, 4)), r"q of shape \(5, 0, 4\) is an empty set"),
        (lambda: weighted_mean(torch.ones(4)), r"q of shape \(4,\) is not a set of quaternions"),
        (lambda: weighted_mean(torch.eye(4), torch.ones(4).double()), "w has dtype torch.float64 and q torch.float32"),
        (
            lambda: weighted_mean(torch.ones(5, 4), torch.ones(4)),
            r"w of shape \(4,\) does not match q of shape \(5, 4\)",
        ),
        (lambda: weighted_mean(torch.ones(5, 4), torch.tensor(1.0)), r"w of shape \(\) does not match"),
        (lambda: weighted_mean(torch.ones(5, 4), -torch.ones(5)), r"w of shape \(5,\) has a negative value \(-1\)"),
    ],
)
def test_bad_arguments_are_named_in_the_error(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_masked_elements_may_have_any_value_inside_checking():
    q = torch.eye(4)
    q[1] = float("nan")
    with checking():
        weighted_mean(q, torch.tensor([1.0, 0.0, 0.5, 0.0]))
    with checking(), pytest.raises(ValueError, match=r"q of shape \(4, 4\) has values that are not finite"):
        weighted_mean(q, torch.tensor([1.0, 0.1, 0.5, 0.0]))


def test_autocast_does_not_change_the_mean(votes):
    q, w = votes
    with torch.autocast("cpu", torch.bfloat16):
        mean = weighted_mean(q, w)
    assert torch.equal(mean, weighted_mean(q, w))


def test_non_finite_weights_are_named_inside_checking():
    q = torch.eye(4)
    with checking(), pytest.raises(ValueError, match=r"w of shape \(4,\) has values that are not finite"):
        weighted_mean(q, torch.tensor([1.0, float("inf"), 0, 0]))
