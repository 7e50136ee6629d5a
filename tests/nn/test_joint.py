"""How readers' scores are combined into one distribution over candidates and classes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qecnet.nn.joint import ScoreWeights, join_scores, score_weights

KINDS = [(projections, invariant) for projections in (False, True) for invariant in (False, True)]


def make_scores(dtype, candidates=4, classes=3, readers=(3, 3), seed=0):
    generator = torch.Generator().manual_seed(seed)
    upright = torch.randn(2, candidates, readers[0], generator=generator, dtype=dtype)
    return upright, torch.randn(2, candidates, classes, readers[1], generator=generator, dtype=dtype)


def joined(upright, classes, weights):
    return join_scores(upright, classes, weights).flatten(1).softmax(-1).view(classes.shape[:-1])


@pytest.mark.parametrize(("projections", "invariant"), KINDS)
def test_each_reader_has_a_weight_and_each_weight_is_positive(projections, invariant):
    weights = score_weights(projections, invariant)
    assert len(weights.upright) == 2 + projections
    assert len(weights.classes) == 1 + projections + invariant
    assert min(*weights.upright, *weights.classes) > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_sum_over_readers_is_that_of_a_loop(dtype):
    upright, classes = make_scores(dtype)
    weights = ScoreWeights((0.3, 0.6, 0.4), (0.4, 0.7, 0.5))
    wanted = torch.zeros(classes.shape[:-1], dtype=dtype)
    for cloud in range(2):
        for k in range(4):
            for c in range(3):
                for reader in range(3):
                    probability = classes[cloud, k, :, reader].softmax(0)[c]
                    wanted[cloud, k, c] += weights.classes[reader] * probability.log()
                    wanted[cloud, k, c] += weights.upright[reader] * upright[cloud, k, reader]
    rounding = 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(join_scores(upright, classes, weights), wanted, rtol=rounding, atol=rounding)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_constant_added_to_a_readers_scores_changes_nothing(dtype):
    upright, classes = make_scores(dtype)
    weights = score_weights(True, True)
    shifted = joined(upright + torch.tensor([5.0, -3, 1], dtype=dtype), classes + torch.randn(2, 4, 1, 3), weights)
    torch.testing.assert_close(shifted, joined(upright, classes, weights))


@given(st.integers(0, 1000))
def test_the_candidate_on_which_readers_agree_is_the_likeliest(seed):
    _, classes = make_scores(torch.float64, seed=seed)
    classes = classes[:, :1, :, :1].expand(2, 4, 3, 3).clone()  # all readers find the same from all candidates
    classes[:, 1:, :, 0] = classes[:, 1:, :, 0].sort().values
    classes[:, 1:, :, 1:] = classes[:, 1:, :, 1:].sort(dim=-2, descending=True).values
    classes[:, 0] = classes[:, 0].sort(dim=-2).values
    found = joined(torch.zeros(2, 4, 3, dtype=torch.float64), classes, score_weights(True, True)).sum(-1)
    assert (found[:, :1] > found[:, 1:]).all()


def test_a_single_candidate_and_class_has_the_whole_probability():
    found = joined(torch.randn(2, 1, 2), torch.randn(2, 1, 1, 1), score_weights(False, False))
    torch.testing.assert_close(found, torch.ones(2, 1, 1))


def test_a_class_that_a_reader_excludes_is_excluded():
    upright, classes = make_scores(torch.float64)
    classes[:, :, 0, 1] = -torch.inf
    found = joined(upright, classes, score_weights(True, True))
    assert (found[..., 0] == 0).all()
    torch.testing.assert_close(found.sum((1, 2)), torch.ones(2, dtype=torch.float64))
