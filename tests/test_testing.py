"""The checkers: that they pass what is equivariant, and that they bite."""

import pytest
import torch

from qecnet.algebra import from_matrix, random_quaternion, weighted_mean
from qecnet.testing import Action, assert_equivariant, assert_invariant, equivariance_error


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def cloud(request):
    return torch.randn(2, 20, 3, generator=torch.Generator().manual_seed(0), dtype=request.param)


def centroid(x):
    return x.mean(-2)


def distances(x):
    return torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist").sort(-1).values[..., 1]


def test_equivariant_functions_pass(cloud):
    every: tuple[Action, ...] = ("rotation", "permutation", "translation")
    assert_equivariant(centroid, (cloud,), ("points",), "point", under=every)
    assert_equivariant(lambda x: x - x.mean(-2, keepdim=True), (cloud,), ("points",), "vectors", under=every)
    assert_equivariant(distances, (cloud,), ("points",), "scalars", under=every)
    assert_invariant(lambda x: distances(x).sum(-1), (cloud,), ("points",), under=every, tolerance=1e-4)


@pytest.mark.parametrize(
    ("function", "gives", "under"),
    [
        (lambda x: x.abs().mean(-2), "point", "rotation"),
        (lambda x: x[..., 0, :], "point", "permutation"),
        (lambda x: x.cumsum(-2), "points", "permutation"),
        (lambda x: x.sum(-2), "point", "translation"),
        (lambda x: x.norm(dim=-1), "scalars", "translation"),
        (lambda x: x * float("nan"), "points", "rotation"),
        (lambda x: from_matrix(torch.eye(3).to(x)).expand(2, 4), "pose", "rotation"),
    ],
)
def test_functions_that_are_not_equivariant_fail(function, gives, under, cloud):
    assert equivariance_error(function, (cloud,), ("points",), gives, under) > 0.1
    with pytest.raises(AssertionError, match=f"not equivariant under {under}: error"):
        assert_equivariant(function, (cloud,), ("points",), gives, under=under)


def test_functions_that_are_not_invariant_fail(cloud):
    with pytest.raises(AssertionError, match="under rotation"):
        assert_invariant(lambda x: x[..., 0], (cloud,), ("points",))


def test_poses_are_compared_up_to_sign(cloud):
    q = random_quaternion((2, 20), 0, dtype=cloud.dtype)
    generator = torch.Generator().manual_seed(1)

    def mean_of_either_sign(q):
        return weighted_mean(q) * (1 if torch.rand((), generator=generator) < 0.5 else -1)

    assert_equivariant(mean_of_either_sign, (q,), ("poses",), "pose")


def test_vacuous_check_is_refused(cloud):
    with pytest.raises(ValueError, match="trials is 0"):
        equivariance_error(centroid, (cloud,), ("points",), "point", trials=0)
    with pytest.raises(ValueError, match="under names no action"):
        assert_equivariant(centroid, (cloud,), ("points",), "point", under=())
    with pytest.raises(ValueError, match="result 0 of the function is float"):
        assert_invariant(lambda x: float(x.sum()), (cloud,), ("points",))


def test_permutations_always_include_a_swap(cloud):
    assert (
        equivariance_error(lambda x: x.cumsum(-2), (cloud[:, :2],), ("points",), "points", "permutation", trials=1) > 0
    )


@pytest.mark.parametrize(
    ("takes", "gives", "sentence"),
    [
        (("poses",), "point", r"input 0 of shape \(2, 20, 3\) cannot be 'poses': its last axis must be 4"),
        (("points",), "pose", r"result 0 of shape \(2, 3\) cannot be 'pose'"),
        (("points",), ("point", "point"), "returned 1 results, but gives names 2 kinds|returned 2 results"),
        (("cloud",), "point", "input 0 has kind 'cloud'"),
    ],
)
def test_wrong_kinds_are_named_in_the_error(takes, gives, sentence, cloud):
    function = centroid if gives != ("point", "point") else (lambda x: (centroid(x),))
    with pytest.raises(ValueError, match=sentence):
        equivariance_error(function, (cloud,), takes, gives)
