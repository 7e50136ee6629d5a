"""What is minimised, and how fast."""

import math
from dataclasses import replace

import pytest
import torch
from tests.kinds import present

from qecnet.algebra import from_rotvec, random_quaternion
from qecnet.nn import Ballot, Prediction, Whole, cross_entropy, spread_loss, upright_distance
from qecnet.training.objective import class_prior, learning_rate, losses


@pytest.fixture
def prediction():
    generator = torch.Generator().manual_seed(0)
    activations = torch.rand(6, 5, generator=generator)
    return Prediction(activations, random_quaternion((6, 5), generator), activations)


LABELS = torch.tensor([0, 3, 1, 4, 2, 2])
TURNS = torch.tensor([1, 2, 0, 4, 1])


def test_the_loss_is_the_one_in_the_settings(prediction, tiny):
    spread = losses(prediction, LABELS, TURNS, tiny())
    assert spread.total == spread.classification == spread_loss(prediction.activations, LABELS, 0.1)
    wider = losses(prediction, LABELS, TURNS, tiny(margin=0.55))
    assert wider.total == spread_loss(prediction.activations, LABELS, 0.55)
    assert losses(prediction, LABELS, TURNS, tiny(loss="cross_entropy")).total == cross_entropy(
        prediction.activations, LABELS
    )


def test_the_pose_loss_is_between_true_classes_of_a_pair(prediction, tiny):
    angles = torch.tensor([0.3, 1.0, 2.0])
    poses = prediction.poses.clone()
    labels = LABELS[:3]
    true = torch.arange(3), labels
    poses[3:][true] = poses[:3][true]
    same = losses(replace(prediction, poses=poses), labels, TURNS, tiny(siamese=0.1))
    torch.testing.assert_close(same.pose, torch.tensor(0.0), atol=1e-6, rtol=0)
    poses[:3][true] = torch.tensor([1.0, 0, 0, 0])
    poses[3:][true] = from_rotvec(angles[:, None] * torch.tensor([0.0, 0.6, 0.8]))
    found = losses(replace(prediction, poses=poses), labels, TURNS, tiny(siamese=0.1))
    torch.testing.assert_close(found.pose, angles.mean() / math.pi)
    torch.testing.assert_close(found.total, found.classification + 0.1 * found.pose)


def about(axis, *degrees):
    """Rotations about an axis of the world, (len(degrees), 4)."""
    return from_rotvec(torch.tensor(degrees)[:, None].deg2rad() * torch.tensor(axis, dtype=torch.float32))


def made(last, votes, earlier):
    """Two clouds, and two looks at five classes; the true ones have these votes in both looks, and the poses `last` and
    `earlier`. The others have any.
    """
    generator, labels = torch.Generator().manual_seed(1), torch.tensor([0, 3])
    true, ballots = (torch.arange(2), labels), []
    for given in (earlier, last):
        scores, poses = torch.randn(2, 5, generator=generator), random_quaternion((2, 5), generator)
        cast, trust = random_quaternion((2, 5, 3), generator), torch.rand(2, 5, 3, generator=generator)
        poses[true], cast[true], trust[true] = given, votes, TRUST
        ballots.append(Ballot(scores, cast, trust, poses))
    return Prediction(ballots[-1].scores.softmax(-1), ballots[-1].poses, torch.zeros(2, 5), ballots), labels


X, Z = (1, 0, 0), (0, 0, 1)
TRUST = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])


def test_upright_poses_and_votes_have_zero_loss(tiny):
    """The second cloud's class looks the same after a quarter turn."""
    upright = about(Z, 0.0, 90.0)
    votes = torch.stack((about(Z, 0.0, 360.0, 0.0), about(Z, 180.0, 270.0, -90.0)))
    prediction, labels = made(upright, votes, upright)
    found = losses(prediction, labels, TURNS, tiny(aligned=0.7))
    torch.testing.assert_close(found.pose, torch.tensor(0.0), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.total, found.classification, atol=1e-5, rtol=0)


def test_the_aligned_loss_by_hand(tiny):
    """Poses of both looks, and votes of both, by how much each counts; a quarter turn is none for the second class."""
    votes = torch.stack((about(X, 10.0, 20.0, 30.0), about(Z, 10.0, 100.0, 180.0)))
    prediction, labels = made(about(Z, 90.0, 90.0), votes, about(X, 30.0, 60.0))
    voted = 0.5 * 10 + 0.3 * 20 + 0.2 * 30, 0.2 * 10 + 0.2 * 10 + 0.6 * 0
    expected = ((90 + 30 + 2 * voted[0]) + (0 + 60 + 2 * voted[1])) / 2 / 180
    found = losses(prediction, labels, TURNS, tiny(aligned=0.7))
    torch.testing.assert_close(found.pose, torch.tensor(expected), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.total, found.classification + 0.7 * found.pose)


def test_earlier_looks_count_half_for_the_class(tiny):
    upright = about(Z, 0.0, 0.0)
    prediction, labels = made(upright, upright[:, None].expand(2, 3, 4), upright)
    first, last = (
        torch.nn.functional.cross_entropy(ballot.scores, labels, label_smoothing=0.15) for ballot in prediction.ballots
    )
    found = losses(prediction, labels, TURNS, tiny(loss="cross_entropy", smoothing=0.15))
    torch.testing.assert_close(found.classification, last + first / 2)
    assert found.total == found.classification
    assert found.pose == 0


def test_aligned_and_siamese_add_up(prediction, tiny):
    """Here of a network without ballots, of which the poses alone are there to be upright."""
    labels = LABELS[:3]
    one, other, both = (
        losses(prediction, labels, TURNS, tiny(aligned=a, siamese=s)) for a, s in ((0.5, 0), (0, 0.1), (0.5, 0.1))
    )
    torch.testing.assert_close(both.pose, one.pose + other.pose)
    torch.testing.assert_close(both.total, both.classification + 0.5 * one.pose + 0.1 * other.pose)
    every = labels.repeat(2)
    upright = upright_distance(prediction.pose_of(every), TURNS[every])
    torch.testing.assert_close(one.pose, upright.mean() / math.pi)


def test_one_cycle_rises_and_falls(tiny):
    assert {learning_rate(tiny(), p / 10) for p in range(11)} == {1e-3}
    settings = tiny(schedule="onecycle", learning_rate=0.5)
    course = [learning_rate(settings, p / 1000) for p in range(1001)]
    assert course[0] == pytest.approx(0.5 / 25)
    assert max(course) == course[300] == pytest.approx(0.5)
    assert course[-1] == pytest.approx(0.5e-4)
    assert course[:301] == sorted(course[:301])
    assert course[300:] == sorted(course[300:], reverse=True)


def test_shapes_without_a_class_have_no_classification_loss(prediction, tiny):
    labels = torch.tensor([0, -1, 1, 4, -1, 2])
    named = labels >= 0
    found = losses(prediction, labels, TURNS, tiny())
    share = 4 / 6
    torch.testing.assert_close(found.total, share * spread_loss(prediction.activations[named], labels[named], 0.1))
    nobody = losses(prediction, torch.full((6,), -1), TURNS, tiny())
    assert nobody.total == 0


def test_the_centre_and_size_of_the_whole_shape_are_learned(prediction, tiny):
    offset, growth = torch.tensor([[3.0, 0, 4]]).expand(6, 3), torch.full((6,), -2.0)
    plain = losses(prediction, LABELS, TURNS, tiny()).total
    guess = replace(prediction, whole=Whole(offset, growth))
    right = losses(guess, LABELS, TURNS, tiny(), Whole(offset, growth)).total
    assert right == plain
    whole = losses(guess, LABELS, TURNS, tiny()).total  # a cloud that is not said to be a part is whole
    torch.testing.assert_close(whole - plain, torch.tensor(0.5 * (5 + 2)))


def test_balanced_loss_adds_log_frequencies_to_scores(tiny):
    labels = torch.tensor([0, 0, 0, 1, 2, -1])
    prior = present(class_prior(labels, 4, 0.5))
    half = 0.5 * torch.tensor([0.5, 1 / 6, 1 / 6, 1 / 6]).log()
    torch.testing.assert_close(prior - prior[0], half - half[0])
    scores, wanted = torch.randn(6, 4, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 2, 3, 0, 1])
    prediction = Prediction(scores.softmax(-1), torch.eye(4)[0].expand(6, 4, 4), scores)
    found = losses(prediction, wanted, torch.ones(5), tiny(loss="cross_entropy"), prior=prior)
    torch.testing.assert_close(found.total, torch.nn.functional.cross_entropy(scores + prior, wanted))


def test_balance_zero_changes_nothing():
    assert class_prior(torch.tensor([0, 0, 1]), 2, 0.0) is None


@pytest.mark.parametrize("balance", [0.3, 1.0])
def test_balanced_spread_loss_is_weighted_by_inverse_frequencies(tiny, balance):
    labels = torch.tensor([0] * 6 + [1] * 3 + [2])
    prior = present(class_prior(labels, 3, balance))
    activations = torch.rand(10, 3, generator=torch.Generator().manual_seed(1))
    prediction = Prediction(activations, torch.eye(4)[0].expand(10, 3, 4), activations)
    found = losses(prediction, labels, torch.ones(4), tiny(loss="spread"), prior=prior).total
    weights = torch.tensor([6.0, 3.0, 1.0]) ** -balance
    each = torch.stack([spread_loss(a[None], t[None], 0.1) for a, t in zip(activations, labels, strict=True)])
    expected = (weights[labels] * each).sum() / weights[labels].sum()
    torch.testing.assert_close(found, expected)
