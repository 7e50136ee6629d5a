"""L_q medians: Lemma 1, falling costs, and what outliers do to them."""

import pytest
import torch
from tests.kinds import present

from qecnet.algebra import (
    angular_distance,
    checking,
    from_rotvec,
    lq_median,
    multiply,
    random_quaternion,
    weighted_mean,
    weiszfeld_weights,
)
from qecnet.testing import assert_equivariant


@pytest.fixture
def votes(dtype, generator):
    return random_quaternion((6, 15), generator, dtype=dtype), torch.rand(6, 15, generator=generator, dtype=dtype) + 0.1


def cluster(count: int, outliers: float, spread: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`count` rotations around a true one, that share of them replaced by random ones; float64."""
    generator = torch.Generator().manual_seed(seed)
    truth = random_quaternion((), generator, dtype=torch.float64)
    noise = spread * torch.randn(count, 3, generator=generator, dtype=torch.float64)
    q = multiply(truth.expand(count, 4), from_rotvec(noise))
    q[: int(outliers * count)] = random_quaternion(int(outliers * count), generator, dtype=torch.float64)
    return q, truth


def test_exponent_2_is_the_mean(votes, tolerance):
    quaternions, weights = votes
    median = lq_median(quaternions, weights, exponent=2.0)
    assert angular_distance(median, weighted_mean(quaternions, weights)).max() <= 4 * tolerance


@pytest.mark.parametrize("exponent", [1.0, 1.5, 2.0])
def test_lemma_1_a_routing_step_is_a_weiszfeld_step(exponent, votes, tolerance):
    """A routing step written out: distance to the current pose, weight σ, weighted mean of the votes."""
    q, w = votes
    pose = weighted_mean(q, w)
    for step in range(1, 4):
        distance = torch.sin(angular_distance(pose[..., None, :], q) / 2)
        pose = weighted_mean(q, w * distance ** (exponent - 2))
        assert angular_distance(pose, lq_median(q, w, exponent, iterations=step)).max() <= 100 * tolerance


@pytest.fixture
def costs_of(monkeypatch):
    """The costs before each step of a median, and after the last. → (iterations + 1, ...)"""

    def measure(q, w, exponent, iterations):
        deltas = []

        def record(delta, *options):
            deltas.append(delta)
            return weiszfeld_weights(delta, *options)

        monkeypatch.setattr("qecnet.algebra.median.weiszfeld_weights", record)
        median = lq_median(q, w, exponent, iterations)
        assert len(deltas) == iterations
        deltas.append(angular_distance(median[..., None, :], q))
        return torch.stack([(w * torch.sin(delta / 2) ** exponent).sum(-1) for delta in deltas])

    return measure


@pytest.mark.parametrize("exponent", [1.0, 1.2, 1.7, 2.0])
def test_cost_never_rises(exponent, votes, costs_of):
    costs = costs_of(*votes, exponent, 50)
    assert costs.shape == (51, 6)
    assert (costs.diff(dim=0) <= (1e-6 if costs.dtype == torch.float32 else 1e-13) * costs[:-1]).all()
    if exponent < 2:
        assert (costs[-1] < costs[0] - 1e-4).all()


@pytest.mark.parametrize("spread", [1e-3, 0.1])
def test_cost_never_rises_in_tight_clusters(spread, dtype, generator, costs_of):
    """Relative to the cost itself, until it is down to what rounding leaves of a distance."""
    noise = spread * torch.randn(100, 5, 3, generator=generator, dtype=dtype)
    q = multiply(random_quaternion((100, 1), generator, dtype=dtype).expand(100, 5, 4), from_rotvec(noise))
    costs = costs_of(q, torch.ones_like(q[..., 0]), 1.0, 30)
    allowed = 1e-3 if dtype == torch.float32 else 1e-7
    assert (costs.diff(dim=0) <= allowed * costs[:-1]).all()


def test_a_converged_median_is_a_local_minimum(votes, generator):
    q, w = (x.double() for x in votes)
    median = lq_median(q, w, iterations=300)

    def cost(x):
        return (w * torch.sin(angular_distance(x[:, None], q) / 2)).sum(-1)

    for _ in range(20):
        nudge = from_rotvec(1e-3 * torch.randn(6, 3, generator=generator, dtype=torch.float64))
        assert (cost(multiply(median, nudge)) >= cost(median) - 1e-9).all()


@pytest.mark.parametrize("seed", range(5))
def test_forty_percent_of_outliers_move_the_median_less_than_three_degrees(seed):
    q, truth = cluster(200, outliers=0.4, spread=0.05, seed=seed)
    median_error, mean_error = (torch.rad2deg(angular_distance(f(q), truth)) for f in (lq_median, weighted_mean))
    assert median_error < 3
    assert mean_error > median_error


def test_median_is_equivariant(votes):
    assert_equivariant(lq_median, votes, takes=("poses", "scalars"), gives="pose", tolerance=1e-3)
    q, w = (x.double() for x in votes)
    assert_equivariant(lq_median, (q, w), takes=("poses", "scalars"), gives="pose", tolerance=1e-9)


def test_weightless_elements_drop_out(votes, tolerance):
    """Whatever they hold, bit for bit; leaving them out moves numbers in memory, and so their last bits."""
    q, w = votes
    w[:, 4:7] = 0
    keep = w[0] > 0
    median = lq_median(q, w)
    torch.testing.assert_close(lq_median(q[:, keep], w[:, keep]), median, atol=tolerance, rtol=0)
    q[:, ~keep] = float("nan")
    assert torch.equal(median, lq_median(q, w))


def test_median_at_a_data_point_is_finite(dtype):
    """The mean of a rotation and two that surround it is that rotation: its distance is 0, its weight would be ∞."""
    offsets = torch.tensor([[0.0, 0, 0], [0.3, 0, 0], [-0.3, 0, 0]], dtype=dtype)
    q = from_rotvec(offsets).requires_grad_()
    median = lq_median(q)
    median[1].backward()
    assert angular_distance(median.detach(), torch.eye(4, dtype=dtype)[0]) <= 1e-4
    assert present(q.grad).isfinite().all()


def test_equal_rotations_are_their_own_median(rotations, tolerance):
    q = rotations[:, None].expand(-1, 4, -1)
    assert angular_distance(lq_median(q), rotations).max() <= 10 * tolerance


def test_gradients():
    q, _ = cluster(7, outliers=0.3, spread=0.4, seed=1)
    w = torch.rand(7, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.1
    assert torch.autograd.gradcheck(
        lambda q, w: lq_median(q, w, 1.3, iterations=3), (q.requires_grad_(), w.requires_grad_())
    )


def test_half_turns_have_no_negative_weight(dtype):
    p = random_quaternion(20_000, 0, dtype=dtype)
    axes = torch.nn.functional.normalize(random_quaternion(20_000, 1, dtype=dtype)[:, 1:], dim=-1)
    delta = angular_distance(p, multiply(p, from_rotvec(torch.pi * axes)))
    assert delta.max() <= torch.tensor(torch.pi, dtype=dtype)
    for weighting in ("sigmoid", "linear", "lq"):
        assert (weiszfeld_weights(delta, weighting) >= 0).all()


def test_masked_elements_may_have_any_value_inside_checking(votes):
    q, w = votes
    w[:, 3] = 0
    q[:, 3] = float("nan")
    with checking():
        assert lq_median(q, w).isfinite().all()


def test_median_is_invariant_to_signs(votes, generator):
    q, w = votes
    signs = torch.randint(0, 2, w.shape, generator=generator) * 2 - 1
    assert angular_distance(lq_median(q * signs[..., None], w), lq_median(q, w)).max() == 0


def test_weightings_agree_with_their_formulas(dtype):
    delta = torch.linspace(0.1, 3.1, 20, dtype=dtype)
    torch.testing.assert_close(weiszfeld_weights(delta, "sigmoid"), 1 / (1 + torch.exp(delta)))
    torch.testing.assert_close(weiszfeld_weights(delta, "linear"), 1 - delta / torch.pi)
    torch.testing.assert_close(weiszfeld_weights(delta, "lq", 1.5), torch.sin(delta / 2) ** -0.5)
    for weighting in ("sigmoid", "linear", "lq"):
        weights = weiszfeld_weights(delta, weighting)
        assert (weights.diff() < 0).all()
    assert weiszfeld_weights(torch.zeros(1, dtype=dtype), "lq").isfinite().all()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: lq_median(torch.ones(3, 3)), r"quaternions has shape \(3, 3\)"),
        (lambda: lq_median(torch.ones(0, 4)), r"quaternions of shape \(0, 4\) is an empty set"),
        (lambda: lq_median(torch.eye(4), -torch.ones(4)), r"weights of shape \(4,\) has a negative value"),
        (lambda: lq_median(torch.eye(4), exponent=0.5), "exponent is 0.5; an L_q median needs 1 ≤ exponent ≤ 2"),
        (lambda: lq_median(torch.eye(4), iterations=-1), "iterations is -1"),
        (
            lambda: weiszfeld_weights(torch.ones(3), "huber"),  # type: ignore[arg-type]
            "weighting is 'huber'; it must be one of sigmoid, linear, lq",
        ),
    ],
)
def test_bad_arguments_are_named_in_the_error(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
