"""Algorithm 1: equivariant, indifferent to what is masked, convergent, and the same as the pseudo-code."""

from itertools import pairwise

import pytest
import torch
from tests.kinds import present
from tests.nn import naive

from qecnet.algebra import angular_distance, checking, from_rotvec, lq_median, multiply, random_quaternion
from qecnet.nn import route
from qecnet.testing import assert_equivariant

WEIGHTINGS = ["sigmoid", "linear", "lq"]


def make_votes(dtype, clouds=3, capsules=5, inputs=12, masked=0.25, seed=0):
    generator = torch.Generator().manual_seed(seed)
    votes = random_quaternion((clouds, capsules, inputs), generator, dtype=dtype)
    activations = torch.rand(clouds, inputs, generator=generator, dtype=dtype) + 0.1
    return votes, activations * (torch.rand(clouds, inputs, generator=generator) >= masked)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_poses_rotate_and_activations_do_not(weighting, dtype):
    votes, activations = make_votes(dtype)

    def routed(votes, activations):
        return route(votes, activations[:, 0], weighting=weighting)[:2]

    each = activations[:, None].expand(votes.shape[:-1])
    assert_equivariant(routed, (votes, each), ("poses", "scalars"), ("poses", "fixed"), under="rotation")
    assert_equivariant(routed, (votes, each), ("poses", "scalars"), ("pose", "fixed"), under="permutation")


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("iterations", [0, 1, 3])
def test_agrees_with_the_pseudo_code(weighting, iterations):
    votes, activations = make_votes(torch.float64)
    poses, output, _ = route(votes, activations, iterations, weighting, exponent=1.3, scale=1.7, shift=-0.2)
    for cloud in range(len(votes)):
        lists = [list(v) for v in votes[cloud]]
        expected, activation = naive.route(lists, list(activations[cloud]), iterations, weighting, 1.3, 1.7, -0.2)
        assert angular_distance(poses[cloud], expected).max() <= 1e-6
        torch.testing.assert_close(output[cloud], activation, atol=1e-6, rtol=0)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_a_masked_vote_changes_nothing_bit_for_bit(weighting, dtype):
    votes, activations = make_votes(dtype, masked=0)
    masked = torch.arange(12) % 4 == 1
    activations = torch.where(masked, 0.0, activations)
    result = route(votes, activations, weighting=weighting)
    other = votes.clone()
    other[:, :, masked] = random_quaternion((3, 5, int(masked.sum())), 9, dtype=dtype)
    found = route(other, activations, weighting=weighting)
    assert all(torch.equal(a, b) for a, b in zip(found, result, strict=True))
    assert torch.equal(result.weights[..., masked], torch.zeros_like(result.weights[..., masked]))


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_masked_votes_are_equivalent_to_removed_votes(weighting, dtype):
    """Up to the last bits: where a number lies in memory decides which of the processor's acos it gets."""
    votes, activations = make_votes(dtype, masked=0)
    kept = torch.arange(12) % 4 != 1
    padded = route(votes, torch.where(kept, activations, 0.0), weighting=weighting)
    plain = route(votes[:, :, kept], activations[:, kept], weighting=weighting)
    tolerance = 2e-6 if dtype == torch.float32 else 1e-14
    torch.testing.assert_close(padded.poses, plain.poses, atol=tolerance, rtol=0)
    torch.testing.assert_close(padded.activations, plain.activations, atol=tolerance, rtol=0)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_no_unmasked_votes_give_the_identity_and_zero_activation(weighting, dtype):
    votes, activations = make_votes(dtype)
    poses, output, _ = route(votes.requires_grad_(), torch.zeros_like(activations), weighting=weighting)
    assert torch.equal(poses, torch.eye(4, dtype=dtype)[0].expand_as(poses))
    assert torch.equal(output, torch.zeros_like(output))
    (poses.sum() + output.sum()).backward()
    assert torch.equal(votes.grad, torch.zeros_like(votes))


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_batch_of_one_equals_a_row_of_the_batch(weighting, dtype):
    votes, activations = make_votes(dtype)
    whole = route(votes, activations, weighting=weighting)
    row = route(votes[1:2], activations[1:2], weighting=weighting)
    tolerance = 2e-6 if dtype == torch.float32 else 1e-14
    for a, b in zip(row, whole, strict=True):
        torch.testing.assert_close(a[0], b[1], atol=tolerance, rtol=tolerance)


def test_lemma_1_lq_routing_is_the_lq_median(dtype):
    votes, activations = make_votes(dtype)
    for exponent in (1.0, 1.5, 2.0):
        poses = route(votes, activations, 3, "lq", exponent=exponent).poses
        median = lq_median(votes, activations[:, None].expand(votes.shape[:-1]), exponent, iterations=3)
        assert angular_distance(poses, median).max() <= (1e-3 if dtype == torch.float32 else 1e-9)


@pytest.mark.parametrize("exponent", [1.0, 1.5])
def test_theorem_2_the_cost_falls_with_every_iteration(exponent):
    """C_q of the appendix on random votes; and three iterations come close to where a hundred lead."""
    votes, activations = make_votes(torch.float64, clouds=8, inputs=40)

    def cost(poses):
        distance = torch.sin(angular_distance(poses[..., None, :], votes) / 2)
        return (activations[:, None] * distance**exponent).sum(-1)

    costs = torch.stack([cost(route(votes, activations, n, "lq", exponent=exponent).poses) for n in (*range(9), 100)])
    assert (costs.diff(dim=0) <= 1e-12).all()
    assert ((costs[3] - costs[-1]) / costs[-1]).mean() < 0.03


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("gradients", ["last", "all"])
@pytest.mark.parametrize("case", ["all equal", "opposite", "one valid", "none valid", "half turns"])
def test_gradients_stay_finite(weighting, gradients, case, dtype):
    votes, activations = make_votes(dtype, masked=0)
    if case == "all equal":
        votes = votes[:, :, :1].expand_as(votes)
    if case == "opposite":
        signs = torch.where(torch.arange(12) % 2 == 0, 1.0, -1.0)
        votes = votes[:, :, :1] * signs[:, None].to(dtype)
    if case == "one valid":
        activations = activations * (torch.arange(12) == 5)
    if case == "none valid":
        activations = torch.zeros_like(activations)
    if case == "half turns":
        votes = torch.eye(4, dtype=dtype)[torch.arange(12) % 4].expand_as(votes)
    votes = votes.clone().requires_grad_()
    activations = activations.clone().requires_grad_()
    poses, output, _ = route(votes, activations, weighting=weighting, gradients=gradients)
    (poses[..., 1].sum() + output.sum()).backward()
    assert votes.grad.isfinite().all()
    assert activations.grad.isfinite().all()


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("gradients", ["last", "all"])
def test_gradient_is_zero_where_all_votes_agree(weighting, gradients, dtype):
    """δ is 0 but for rounding, at its minimum; the direction of that rounding must not become a gradient."""
    votes = random_quaternion((50, 4, 1), 0, dtype=dtype).expand(50, 4, 3, 4).clone().requires_grad_()
    route(votes, torch.ones(50, 3, dtype=dtype), weighting=weighting, gradients=gradients).activations.sum().backward()
    assert torch.equal(present(votes.grad), torch.zeros_like(votes))


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("spread", [0.0, 1e-5, 1e-3, 1e-1])
def test_routing_of_nearly_equal_votes_is_equivariant(weighting, spread, dtype):
    generator = torch.Generator().manual_seed(0)
    noise = spread * torch.randn(3, 2, 64, 3, generator=generator, dtype=dtype)
    votes = multiply(random_quaternion((3, 2, 1), generator, dtype=dtype), from_rotvec(noise))
    turn = random_quaternion((), generator, dtype=dtype)
    activations = torch.ones(3, 64, dtype=dtype)
    before = route(votes, activations, weighting=weighting)
    after = route(multiply(turn, votes), activations, weighting=weighting)
    assert (before.activations - after.activations).abs().max() <= (1e-5 if dtype == torch.float32 else 1e-9)
    assert angular_distance(multiply(turn, before.poses), after.poses).max() <= (
        1e-4 if dtype == torch.float32 else 1e-9
    )


def test_any_leading_axes_are_batch_axes(dtype):
    votes, activations = make_votes(dtype)
    expected = route(votes, activations)
    alone = route(votes[1], activations[1])
    deep = route(votes[None, :, None], activations[None, :, None])
    torch.testing.assert_close(alone.poses, expected.poses[1], atol=1e-5, rtol=0)
    torch.testing.assert_close(deep.poses[0, :, 0], expected.poses, atol=1e-5, rtol=0)
    assert route(votes[:0], activations[:0]).poses.shape == (0, 5, 4)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_gradients_through_all_iterations(weighting):
    votes, activations = make_votes(torch.float64, clouds=1, capsules=2, inputs=5, masked=0)

    def routed(votes, activations):
        unit = torch.nn.functional.normalize(votes, dim=-1)
        return route(unit, activations, 2, weighting, exponent=1.4, gradients="all")[:2]

    assert torch.autograd.gradcheck(routed, (votes.requires_grad_(), activations.requires_grad_()))


def test_last_gradients_are_those_of_the_last_mean():
    """With one iteration and fixed weights written out by hand, the derivative of the pose is that of its mean."""
    votes, activations = make_votes(torch.float64, masked=0)
    leaf = votes.clone().requires_grad_()
    poses, _, weights = route(leaf, activations, 3, "sigmoid")
    poses[..., 2].sum().backward()
    again = votes.clone().requires_grad_()
    moment = torch.einsum("bjl,bjlx,bjly->bjxy", weights.detach(), again, again)
    vectors = torch.linalg.eigh(moment)[1][..., -1]
    sign = torch.sign((vectors * poses.detach()).sum(-1)).detach()
    (sign * vectors[..., 2]).sum().backward()
    torch.testing.assert_close(leaf.grad, again.grad, atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_iterations_lead_from_the_first_mean_to_other_poses(weighting, dtype):
    votes, activations = make_votes(dtype)
    steps = [route(votes, activations, iterations, weighting) for iterations in range(4)]
    assert torch.equal(steps[0].weights, activations[:, None].expand_as(steps[0].weights)), (
        "everyone as active as it is"
    )
    moves = [angular_distance(a.poses, b.poses).mean() for a, b in pairwise(steps)]
    assert all(move > 0 for move in moves)


def test_memory_layout_of_votes_does_not_change_the_result(dtype):
    votes, activations = make_votes(dtype)
    strided = votes.mT.contiguous().mT
    for a, b in zip(route(votes, activations), route(strided, activations), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda v, a: route(v[..., :3], a), r"votes has shape \(3, 5, 12, 3\)"),
        (lambda v, a: route(v[:, :, :0], a[:, :0]), r"votes has shape \(3, 5, 0, 4\).*with L ≥ 1"),
        (lambda v, a: route(v, a[:, :4]), r"activations has shape \(3, 4\); for these votes it must be \(3, 12\)"),
        (lambda v, a: route(v, -1 - a), "activations of shape .* has a negative value"),
        (lambda v, a: route(v, a, iterations=-1), "iterations is -1"),
        (lambda v, a: route(v, a, weighting="huber"), "weighting is 'huber'"),  # type: ignore[arg-type]
        (lambda v, a: route(v, a, gradients="al"), "gradients is 'al'"),  # type: ignore[arg-type]
        (lambda v, a: route(v, a, weighting="lq", exponent=3), "exponent is 3"),
    ],
)
def test_bad_arguments_are_named_in_the_error(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call(*make_votes(torch.float32))


def test_checking_refuses_votes_that_are_not_unit_quaternions():
    votes, activations = make_votes(torch.float32)
    with checking(), pytest.raises(ValueError, match=r"votes .* away from unit length"):
        route(votes * 1.01, activations)
