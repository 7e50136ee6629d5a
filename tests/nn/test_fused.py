"""The compiled operator: as `route` in eager mode, forward and backward, and as indifferent to what is masked."""

from dataclasses import replace

import pytest
import torch
from tests.geometry.test_sampling import farthest_points_naive
from tests.nn.clouds import random_cloud

from qecnet.compiled import use_compiled_operators
from qecnet.nn import Capsules, Pooling, QECModule, fused

WEIGHTINGS = ["sigmoid", "linear", "lq"]


@pytest.fixture(autouse=True)
def compiled():
    assert use_compiled_operators()
    yield
    use_compiled_operators()


def make_modules(dtype, weighting="sigmoid", iterations=3, exponent=1.0, nonlinearity="none"):
    """Two, as in the paper's network: the first of many small patches, the second of one large one."""
    torch.manual_seed(0)
    routing = {"weighting": weighting, "iterations": iterations, "exponent": exponent, "nonlinearity": nonlinearity}
    modules = QECModule(1, 10, **routing), QECModule(10, 6, **routing)
    for module in modules:
        torch.nn.init.constant_(module.scale, 1.7)
        torch.nn.init.constant_(module.shift, -0.2)
    return torch.nn.ModuleList(modules).to(dtype)


def make_cloud(dtype):
    capsules, pooling = random_cloud(3, 40, 12, 7, torch.float64)
    return (
        Capsules(*(x.to(dtype) for x in (capsules.positions, capsules.poses, capsules.activations))),
        replace(pooling, centres=pooling.centres.to(dtype)),
    )


def run(modules, capsules, pooling):
    first = modules[0](capsules, pooling)
    return first, modules[1](first, Pooling.whole(first))


def line(quaternions):
    """What has no sign."""
    return quaternions[..., :, None] * quaternions[..., None, :]


def results_and_gradients(modules, capsules, pooling):
    """Of a loss that reads all that comes out, in which everything that has a gradient has a part."""
    capsules = replace(capsules, poses=capsules.poses.clone().requires_grad_())
    results = [x for c in run(modules, capsules, pooling) for x in (c.activations, line(c.poses))]
    generator = torch.Generator().manual_seed(1)
    loss = sum((x * torch.randn(x.shape, generator=generator).to(x)).sum() for x in results)
    gradients = torch.autograd.grad(loss, (capsules.poses, *modules.parameters()))
    return [x.detach() for x in results], gradients


def difference(found, expected):
    """Relative to the largest entry of each."""
    pairs = zip(found, expected, strict=True)
    return max(float((f.double() - e).abs().max() / e.abs().max().clamp_min(1e-6)) for f, e in pairs)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("iterations", [0, 1, 3])
@pytest.mark.parametrize("exponent", [1.0, 1.4])
def test_results_and_gradients_are_those_of_float64(weighting, iterations, exponent):
    setting = {"weighting": weighting, "iterations": iterations, "exponent": exponent, "nonlinearity": "gelu"}
    exact = results_and_gradients(make_modules(torch.float64, **setting), *make_cloud(torch.float64))
    found = results_and_gradients(make_modules(torch.float32, **setting), *make_cloud(torch.float32))
    assert difference(found[0], exact[0]) < 5e-5
    assert difference(found[1], exact[1]) < 2e-3
    use_compiled_operators(False)
    eager = results_and_gradients(make_modules(torch.float32, **setting), *make_cloud(torch.float32))
    use_compiled_operators()
    assert difference(found[0], exact[0]) < 8 * difference(eager[0], exact[0]) + 1e-6
    assert not torch.equal(found[0][1], eager[0][1])  # or the operator was not asked


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_masked_input_changes_nothing_bit_for_bit(weighting):
    modules = make_modules(torch.float32, weighting)
    capsules, pooling = make_cloud(torch.float32)
    other = replace(pooling, neighbours=torch.where(pooling.present, pooling.neighbours, 39))
    masked = capsules.activations == 0
    changed = replace(
        capsules, poses=torch.where(masked[..., None], torch.full_like(capsules.poses, 0.5), capsules.poses)
    )
    expected = results_and_gradients(modules, capsules, pooling)
    found = results_and_gradients(modules, changed, other)
    assert masked.any()
    assert all(torch.equal(f, e) for part in zip(found, expected, strict=True) for f, e in zip(*part, strict=True))


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_no_input_gives_the_identity_and_zero_activation(weighting):
    modules = make_modules(torch.float32, weighting)
    capsules, pooling = make_cloud(torch.float32)
    none = replace(capsules, activations=torch.zeros_like(capsules.activations))
    for given in run(modules, none, pooling):
        assert torch.equal(given.poses, torch.eye(4)[0].expand_as(given.poses))
        assert torch.equal(given.activations, torch.zeros_like(given.activations))
    gradients = results_and_gradients(modules, none, pooling)[1]
    assert all(torch.equal(g, torch.zeros_like(g)) for g in gradients)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_gradients_stay_finite_where_all_votes_agree(weighting):
    modules = make_modules(torch.float32, weighting)
    for module in modules:
        torch.nn.init.zeros_(module.kernel.second.weight)
    capsules, pooling = make_cloud(torch.float32)
    same = replace(capsules, poses=capsules.poses[:, :1].expand_as(capsules.poses))
    results, gradients = results_and_gradients(modules, same, pooling)
    assert all(x.isfinite().all() for x in (*results, *gradients))


def test_result_does_not_depend_on_threads_or_batch_size():
    modules = make_modules(torch.float32)
    capsules, pooling = make_cloud(torch.float32)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected = results_and_gradients(modules, capsules, pooling)
        torch.set_num_threads(3)
        found = results_and_gradients(modules, capsules, pooling)
    finally:
        torch.set_num_threads(threads)
    for part in zip(found, expected, strict=True):
        torch.testing.assert_close(*part, atol=1e-6, rtol=1e-5)
    alone = Capsules(capsules.positions[:1], capsules.poses[:1], capsules.activations[:1])
    one = run(modules, alone, Pooling(pooling.centres[:1], pooling.neighbours[:1], pooling.present[:1]))
    for mine, all_of_them in zip(one, run(modules, capsules, pooling), strict=True):
        torch.testing.assert_close(mine.activations, all_of_them.activations[:1], atol=2e-6, rtol=0)


def test_gradients_through_all_iterations_use_eager_mode():
    module = make_modules(torch.float32)[0]
    capsules, pooling = make_cloud(torch.float32)
    module.gradients = "all"
    given = module(capsules, pooling)
    use_compiled_operators(False)
    assert torch.equal(module(capsules, pooling).activations, given.activations)
    use_compiled_operators()


def test_pooling_graph_of_a_batch_is_that_of_each_cloud():
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(5, 60, 3, generator=generator)
    valid = torch.rand(5, 60, generator=generator) < torch.tensor([1.0, 0.7, 0.2, 0.05, 0.0])[:, None]
    starts = valid.int().argmax(-1)
    centres, neighbours, mask = fused.pool_fused(points, valid, starts, count=10, size=4)
    for cloud in range(5):
        usable = valid[cloud].nonzero()[:, 0]
        reached = min(10, len(usable))
        assert mask[cloud].sum() == reached * min(4, len(usable))
        assert not centres[cloud, reached:].any()
        assert not neighbours[cloud][~mask[cloud]].any()
        if reached:
            chosen = farthest_points_naive(points[cloud, usable].double(), reached, 0)
            there = points[cloud, usable].double()
            present = (torch.arange(4) < len(usable)).expand(reached, 4)
            nearest = torch.zeros(reached, 4, dtype=torch.int64)
            found = torch.cdist(there[chosen], there).topk(min(4, len(usable)), largest=False).indices
            nearest[:, : found.shape[1]] = found
            assert torch.equal(centres[cloud, :reached], usable[chosen])
            assert torch.equal(mask[cloud, :reached], present)
            assert torch.equal(neighbours[cloud, :reached][present], usable[nearest][present])
